"""A stand-in for a shop's admin API in a well-known style: a header with a token, envelopes, ids of 19 digits, 429.

It answers every third call with 429 and a Retry-After, and refuses an order without an email. Variant 13 is sold out at
the time of its fulfilment. A second order with the same `source_identifier` is the first one.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = os.environ.get("SHOP_TOKEN", "shpat_example")
lock = threading.Lock()
orders, calls = {}, 0


def wrong(reason):
    return 422, {"errors": {"base": [reason]}}, {}


def create(order):
    if not order["email"]:
        return wrong("email-blank")
    found = [known for known in orders.values() if known["source_identifier"] == order["source_identifier"]]
    if not found:
        total = sum(line["quantity"] * 1990 for line in order["line_items"])
        order |= {"id": 7_615_917_337_495_251_231 + len(orders), "tags": "", "total_price": f"{total / 100:.2f}"}
        orders[order["id"]] = order
        found = [order]
    return 201, {"order": found[0]}, {}


def change(order, what, request):
    if what == "cancel":
        order["cancelled_at"] = order.get("cancelled_at", "2025-01-01T00:00:00Z")
        return 200, {"order": order}, {}
    if what == "fulfillments":
        if any(line["variant_id"] == 13 for line in order["line_items"]):
            return wrong("sold-out")
        order["fulfillment"] = {"id": order["id"] + 1_000_000, "status": "success"}
        return 201, {"fulfillment": order["fulfillment"]}, {}
    order["tags"] = request["order"]["tags"]
    return 200, {"order": order}, {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        global calls
        calls += 1
        parts = [part.removesuffix(".json") for part in self.path.split("/")[4:]]
        if self.headers.get("X-Shop-Access-Token") != TOKEN:
            return 401, {"errors": "[API] Invalid API key or access token"}, {}
        if parts == ["shop"]:
            return 200, {"shop": {"name": "Example"}}, {}
        if calls % 3 == 0:
            return 429, {"errors": "Exceeded 2 calls per second for api client."}, {"Retry-After": "0.2"}
        if parts == ["orders"]:
            return create(body["order"])
        order = orders.get(int(parts[1]))
        return change(order, parts[-1], body) if order else (404, {"errors": "Not Found"}, {})

    def do(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        with lock:
            status, body, headers = self.answer(body)
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8082"))), Handler)
    print(f"shop on http://127.0.0.1:{server.server_port}/admin/api/2025-01", flush=True)
    server.serve_forever()
