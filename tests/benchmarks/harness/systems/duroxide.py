"""duroxide on SQLite."""

from .. import build, machine
from .system import System


class Duroxide(System):
    name = "duroxide"
    title = "duroxide"
    share = 0.1
    settings = ("duroxide 0.1.32 on its SQLite provider in one process, which takes the orders and runs them; one "
                "orchestration and two steps at once, an empty queue looked into every ms, a step taken over after "
                "5 s. The provider asks SQLite for a `synchronous` that SQLite does not know, and gets `NORMAL`, with "
                "which a commit is not synced; here it is set to `FULL`. The provider gets one connection: with its "
                "usual five, transactions met each other's locks, far fewer orders ended, and in a trial "
                "one had no answer within two minutes.")
    unfair = ("It is in preview, by its own page. It commits every write by itself, so orders that run at once share "
              "no sync, and it asks its queues for work instead of being woken. An order counts as ended once its "
              "last answer is stored, a moment before its end is: in its favour.")

    @classmethod
    def build(cls):
        cls.binary = build.peer("peer-duroxide")

    def launch(self, is_fresh):
        if is_fresh:
            self.port, = machine.free_ports(1)
        self.run("duroxide", [self.binary, "--data", self.place, "--service", self.service,
                            "--listen", f"127.0.0.1:{self.port}"])
        machine.until("duroxide", lambda: machine.answers(f"http://127.0.0.1:{self.port}/"), every=0.005)

    def waited(self):
        return [f"http://127.0.0.1:{self.port}/orders?wait"]

    def accepted(self):
        return [f"http://127.0.0.1:{self.port}/orders"]
