"""A service with flights, hotel rooms and a bank: what the workflow's agents call.

`triad dev` starts it, and says in PORT where to listen and in DATA_DIR where to keep its data. Nothing but
Python's standard library is needed. The rules of the contract are in `answer`; what the service does is in
ACTIONS, and is yours to change.
"""

import json
import os
import sqlite3
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Refused(Exception):
    """The service will not do it, now or later. Nothing has happened."""

    def __init__(self, code, message, status=422):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def book_flight(request, number):
    return {"reference": f"F-{number}", "price": 120 * request["guests"]}


def book_room(request, number):
    if request["guests"] > 4:
        raise Refused("no-room", f"no room has {request['guests']} beds")
    return {"reference": f"H-{number}", "price": 80 * request["nights"]}


def charge(request, number):
    if request["amount"] > 5000:
        raise Refused("card-declined", "the card has not so much")
    return {"reference": f"B-{number}", "amount": request["amount"]}


def reverse(request, number):
    """Here the booking would be cancelled, or the money sent back."""
    return {"reference": f"C-{number}"}


ACTIONS = {
    ("flights", "book"): book_flight,
    ("flights", "cancel"): reverse,
    ("hotel", "book"): book_room,
    ("hotel", "cancel"): reverse,
    ("bank", "charge"): charge,
    ("bank", "refund"): reverse,
}

# What has happened under each key. It is kept for good: a call may come again after days.
db = sqlite3.connect(
    os.path.join(os.environ.get("DATA_DIR", "."), "service.db"),
    check_same_thread=False,
    isolation_level=None,
)
db.execute("PRAGMA synchronous = FULL")
db.execute(
    "CREATE TABLE IF NOT EXISTS keys"
    " (agent TEXT, key TEXT, state TEXT, request TEXT, answer TEXT, PRIMARY KEY (agent, key))"
)
# One call at a time: two with the same key must not both find it new.
lock = threading.Lock()


def find(agent, key):
    found = db.execute(
        "SELECT state, request, answer FROM keys WHERE agent = ? AND key = ?", (agent, key)
    ).fetchone()
    return found or (None, None, None)


def keep(agent, key, state, request=None, output=None):
    db.execute(
        "INSERT INTO keys VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (agent, key) DO UPDATE SET state = excluded.state",
        (agent, key, state, request, json.dumps(output)),
    )


def do(agent, action, body):
    number = db.execute("SELECT count(*) + 1 FROM keys").fetchone()[0]
    return ACTIONS[agent, action](body, number)


def answer(agent, action, headers, body):
    """One call, by the contract of a remote service (`triad docs service-contract`)."""
    direction = headers.get("Triad-Direction", "forward")
    key = headers.get("Idempotency-Key")
    if not key:
        raise Refused("no-key", "the header Idempotency-Key is missing", 400)
    state, before, kept = find(agent, key)
    if direction == "probe":  # asked only whether it has happened
        happened = state == "applied"
        return {"applied": True, "output": json.loads(kept)} if happened else {"applied": False}
    if (agent, action) not in ACTIONS:
        raise Refused("no-such-action", f"there is no action {agent}/{action}", 404)
    compensates = headers.get("Triad-Compensates") if direction == "compensate" else None
    if direction == "compensate" and not compensates:
        raise Refused("no-compensates", "the header Triad-Compensates is missing", 400)
    request = json.dumps([action, compensates, body], sort_keys=True)
    if state in ("compensated", "tombstone"):  # compensated, perhaps before it came
        raise Refused("compensated", "this was compensated", 409)
    if state:  # the same again is answered the same
        if request != before:
            raise Refused("key-reused", "this key came with another request")
        return json.loads(kept)
    if direction == "compensate":
        target, _, _ = find(agent, compensates)
        # What comes first leaves a tombstone: should the forward call come later, it is refused.
        reversed_now = do(agent, action, body) if target == "applied" else {}
        keep(agent, compensates, "compensated" if target in ("applied", "compensated") else "tombstone")
        keep(agent, key, "done", request, reversed_now)
        return reversed_now
    output = do(agent, action, body)
    keep(agent, key, "applied", request, output)
    return output


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        agent, _, action = self.path.strip("/").partition("/")
        status, result = 200, None
        try:
            body = json.loads(self.rfile.read(length) or b"null")
            with lock:
                db.execute("BEGIN IMMEDIATE")  # all that a call changes, or nothing
                try:
                    result = answer(agent, action, self.headers, body)
                    db.execute("COMMIT")
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
        except Refused as refused:
            status = refused.status
            result = {"error": {"code": refused.code, "message": refused.message}}
        except Exception as error:  # may pass: Triad asks again with the same key
            status = 500
            result = {"error": {"code": "broken", "message": f"{type(error).__name__}: {error}"}}
        # In one piece: calls come side by side.
        sys.stdout.write(f"{agent} {action} {self.headers.get('Triad-Order', '-')} -> {status}\n")
        text = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Each call has its line above."""


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8080"))
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
