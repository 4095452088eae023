"""A bank. The card of `S-2` has expired in its second period. `GET /payments` shows what was paid and given back."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

payments = {}


def act(action, request):
    subscription, period = request["subscription"], request["period"]
    payment = f"{subscription}.{period}"
    if action == "refund":
        if payment in payments:
            payments[payment] = "given back"
        return 200, {}
    if subscription == "S-2" and period > 1:
        return 422, {"error": {"code": "card-expired", "message": "the card has expired"}}
    payments[payment] = "paid"
    return 200, {"payment": payment}


class Bank(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer(200, payments)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.answer(*act(self.path.rsplit("/", 1)[-1], json.loads(body)))

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Bank).serve_forever()
