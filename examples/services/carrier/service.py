"""A stand-in for a carrier's API in a well-known style: JSON, Basic auth, no idempotency keys, a label of 12 KB.

It answers 422 with a code to the second purchase of a label, to the refund of a label that was not bought, and to a
pickup on a Sunday. It answers 503 to the first purchase of each label, although the label is bought.
"""

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = os.environ.get("CARRIER_KEY", "EZTK_example")
shipments, pickups = {}, {}


def error(status, code, message):
    return status, {"error": {"code": code, "message": message, "errors": []}}


def create(request):
    wanted = request["shipment"]
    if wanted["to_address"].get("city") == "Nowhere":
        return error(422, "ADDRESS.VERIFY.FAILURE", "Unable to verify address.")
    name = f"shp_{len(shipments) + 1}"
    rates = [{"id": f"rate_{name}", "carrier": "USPS", "service": "Priority", "rate": "7.58"}]
    shipments[name] = {"id": name, "status": "unknown", "tracking_code": None, "rates": rates} | wanted
    return 201, shipments[name]


def buy(shipment, request):
    if shipment["tracking_code"]:
        return error(422, "SHIPMENT.POSTAGE.EXISTS", "Postage already exists for this shipment.")
    if request["rate"]["id"] != shipment["rates"][0]["id"]:
        return error(422, "SHIPMENT.POSTAGE.FAILURE", "Unable to purchase postage.")
    shipment |= {"tracking_code": "94" + shipment["id"], "status": "pre_transit"}
    return error(503, "GATEWAY.TIMEOUT", "The answer was lost.")


def refund(shipment):
    if shipment["status"] != "pre_transit":
        return error(422, "SHIPMENT.REFUND.UNAVAILABLE", "Refund request unavailable.")
    shipment |= {"status": "cancelled", "refund_status": "submitted"}
    return 200, shipment


def pickup(request):
    if request["day"] == "Sunday":
        return error(422, "PICKUP.DATE.INVALID", "No pickup on a Sunday.")
    made = pickups.setdefault(request["reference"], {"id": f"pickup_{len(pickups) + 1}", "status": "scheduled"})
    return 201, made


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, method):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}"
        sent = base64.b64decode(self.headers.get("Authorization", "Basic ")[6:]).decode()
        parts = self.path.split("/")[2:]
        if sent.partition(":")[2] != KEY:
            return error(401, "APIKEY.INVALID", "The API key is not valid.")
        if (method, parts) == ("POST", ["shipments"]):
            return create(json.loads(body))
        if (method, parts) == ("POST", ["pickups"]):
            return pickup(json.loads(body))
        if (method, parts) == ("GET", ["shipments"]):
            return 200, {"shipments": list(shipments.values())}
        shipment = shipments.get(parts[1]) if len(parts) > 1 else None
        if shipment is None:
            return error(404, "NOT_FOUND", "The requested resource could not be found.")
        if method == "GET":
            return 200, shipment
        label = {"postage_label": {"label_file": "J" * 12_000}}
        status, said = buy(shipment, json.loads(body)) if parts[2] == "buy" else refund(shipment)
        return status, said | label

    def do(self):
        status, body = self.answer(self.command)
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8081"))), Handler)
    print(f"carrier on http://127.0.0.1:{server.server_port}/v2", flush=True)
    server.serve_forever()
