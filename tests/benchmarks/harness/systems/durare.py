"""durare on SQLite."""

from .. import build, machine
from .system import System


class Durare(System):
    name = "durare"
    title = "durare"
    share = 0.5
    settings = ("durare 0.5.0 on SQLite in one process, which takes the orders and runs their workflows. Its file is "
                "opened as durare opens it, but with `synchronous = FULL`: durare's own choice is `NORMAL`, with which "
                "a commit is not synced. It has five connections to the file, as is usual for it, and recovers at its "
                "start (`recover_on_launch`).")
    unfair = "It commits every write by itself, so orders that run at once share no sync."

    @classmethod
    def build(cls):
        cls.binary = build.peer("peer-durare")

    def launch(self, is_fresh):
        if is_fresh:
            self.port, = machine.free_ports(1)
        self.run("durare", [self.binary, "--data", self.place, "--service", self.service,
                            "--listen", f"127.0.0.1:{self.port}"])
        machine.until("durare", lambda: machine.answers(f"http://127.0.0.1:{self.port}/"), every=0.005)

    def waited(self):
        return [f"http://127.0.0.1:{self.port}/orders?wait"]

    def accepted(self):
        return [f"http://127.0.0.1:{self.port}/orders"]
