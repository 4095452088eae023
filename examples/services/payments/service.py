"""A stand-in for a payment API in a well-known style: forms in, an Idempotency-Key, errors in an envelope.

It declines the card `tok_declined`. It answers 409 to the first call with `tok_slow`, as if it still worked on an earlier
call under the key. Without PAYMENT_TOKEN it accepts any caller. Its data is in memory only.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

TOKEN = os.environ.get("PAYMENT_TOKEN")
lock = threading.Lock()
answers, charges, seen = {}, {}, set()


def error(status, code, message):
    return status, {"error": {"type": "card_error", "code": code, "message": message}}


def create(form):
    if form.get("source") == "tok_declined":
        return error(402, "card_declined", "Your card was declined.")
    if not form.get("amount", "").isdigit():
        return error(400, "parameter_invalid_integer", "Invalid integer: " + form.get("amount", ""))
    charge = {"id": f"ch_{len(charges) + 1}", "object": "charge", "amount": int(form["amount"]), "refunds": []}
    charge |= {"currency": form["currency"], "status": "succeeded", "card": {"brand": "visa", "last4": "4242"}}
    charges[charge["id"]] = charge
    return 200, charge


def refund(name):
    charge = charges.get(name)
    if charge is None:
        return error(404, "resource_missing", "No such charge: " + name)
    if charge["refunds"]:
        return error(400, "charge_already_refunded", "Charge " + name + " has already been refunded.")
    refunded = {"id": "re_" + name[3:], "charge": name, "amount": charge["amount"]}
    charge["refunds"].append(refunded)
    return 200, refunded


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def is_stranger(self):
        return TOKEN is not None and self.headers.get("Authorization") != "Bearer " + TOKEN

    def do_GET(self):
        if self.is_stranger():
            return self.say(*error(401, "api_key_invalid", "Invalid API Key provided"))
        if self.path == "/v1/balance":
            return self.say(200, {"available": sum(c["amount"] for c in charges.values() if not c["refunds"])})
        charge = charges.get(self.path.rpartition("/")[2])
        return self.say(*((200, charge) if charge else error(404, "resource_missing", "No such charge")))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        key = self.headers.get("Idempotency-Key")
        if self.is_stranger():
            return self.say(*error(401, "api_key_invalid", "Invalid API Key provided"))
        with lock:
            if form.get("source") == "tok_slow" and key not in seen:
                seen.add(key)
                return self.say(*error(409, "idempotency_key_in_use", "Another request with this key is in progress"))
            if key not in answers:
                made = create(form) if self.path == "/v1/charges" else refund(self.path.split("/")[3])
                answers[key] = made[0], json.dumps(made[1])
            status, text = answers[key]
        return self.say(status, json.loads(text))

    def say(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Request-Id", "req_example")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Handler)
    print(f"payments on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
