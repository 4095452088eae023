"""Two carriers. Both refuse what goes to an island, and an address that there is not.

The express carrier refuses what goes to a mountain, takes one parcel every three seconds to the city, and books what goes
to a harbour without ever answering. `GET /bookings` shows what is booked where.
"""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

bookings = {"express": {}, "road": {}}
last_to_city = [0.0]


def refused(code, message, status=422):
    return status, {"error": {"code": code, "message": message}}


def book(carrier, request):
    parcel, to = request["parcel"], request["to"]
    if to == "nowhere":
        return refused("no-such-address", "there is no such address")
    if to == "island" or (carrier, to) == ("express", "mountain"):
        return refused("not-served", f"{carrier} does not go there")
    if (carrier, to) == ("express", "city") and parcel not in bookings[carrier]:
        if time.monotonic() < last_to_city[0] + 3:
            return refused("too-many-parcels", "one in three seconds", 503)
        last_to_city[0] = time.monotonic()
    bookings[carrier][parcel] = "booked"
    if (carrier, to) == ("express", "harbour"):
        time.sleep(5)
    return 200, {"carrier": carrier, "booking": f"{carrier}-{parcel}"}


def cancel(carrier, request):
    if request["parcel"] in bookings[carrier]:
        bookings[carrier][request["parcel"]] = "cancelled"
    return 200, {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def say(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say(200, bookings)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        _, carrier, action = self.path.split("/")
        answer = {"book": book, "cancel": cancel}[action](carrier, request)
        try:
            self.say(*answer)
        except ConnectionError:
            pass  # Nobody waits for the answer any more.

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8081"))), Handler)
    print(f"carriers on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
