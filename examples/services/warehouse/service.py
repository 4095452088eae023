"""A stand-in for a warehouse's API: OAuth 2.0 client credentials, and 200 to every pick, with the outcome in the body.

It accepts a token for five calls and then refuses it, as if the token had been revoked.
"""

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

SECRET = os.environ.get("WAREHOUSE_SECRET", "example-secret")
tokens, picks, stock = {}, {}, {"A-7": 10}


def token(sent, authorization):
    form = {name: values[0] for name, values in parse_qs(sent).items()}
    user = base64.b64decode(authorization[6:]).decode() if authorization.startswith("Basic ") else ""
    secret = form.get("client_secret", user.partition(":")[2])
    if form.get("grant_type") != "client_credentials" or secret != SECRET:
        return 401, {"error": "invalid_client"}
    made = f"token-{len(tokens) + 1}"
    tokens[made] = 5
    return 200, {"access_token": made, "token_type": "Bearer", "expires_in": 3600}


def pick(request):
    key = request["requestId"]
    if key not in picks:
        if stock.get(request["sku"], 0) < request["count"]:
            return 200, {"success": False, "code": "NO_STOCK", "message": "not so many are left"}
        stock[request["sku"]] -= request["count"]
        picks[key] = {"success": True, "pickId": f"pick-{len(picks) + 1}"}
    return 200, picks[key]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        shown = self.headers.get("Authorization", "")
        if self.path == "/oauth/token":
            return token(body, shown)
        left = tokens.get(shown.removeprefix("Bearer "), 0)
        if left == 0:
            return 401, {"error": "invalid_token"}
        tokens[shown.removeprefix("Bearer ")] = left - 1
        if self.command == "POST":
            return pick(json.loads(body))
        return (200, stock) if self.path == "/api/stock" else (410, {"success": False, "code": "GONE"})

    def do(self):
        status, body = self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8083"))), Handler)
    print(f"warehouse on http://127.0.0.1:{server.server_port}/api", flush=True)
    server.serve_forever()
