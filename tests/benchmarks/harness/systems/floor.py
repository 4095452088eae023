"""The three steps written by hand on SQLite: the least work of any durable run."""

from .. import build, machine
from .system import System


class Floor(System):
    name = "floor"
    title = "by hand on SQLite"
    settings = ("A few hundred lines: an order and each step's answer are stored and synced, in groups, before "
                "anything follows from them.")
    unfair = ("It has no retries, deadlines, compensation, supervision, conditions, history or page, and one "
              "process can ever run it. It is the floor, not an engine.")

    @classmethod
    def build(cls):
        cls.binary = build.peer("peer-floor")

    def launch(self, is_fresh):
        if is_fresh:
            self.port, = machine.free_ports(1)
        self.run("floor", [self.binary, "--data", self.place, "--service", self.service,
                           "--listen", f"127.0.0.1:{self.port}"])
        machine.until("the saga", lambda: machine.answers(f"http://127.0.0.1:{self.port}/"), every=0.005)

    def waited(self):
        return [f"http://127.0.0.1:{self.port}/orders?wait"]

    def accepted(self):
        return [f"http://127.0.0.1:{self.port}/orders"]
