"""apalis on PostgreSQL."""

from .. import build, machine
from .postgres import SETTINGS, OnPostgres, Postgres, version


class Apalis(OnPostgres):
    name = "apalis"
    title = "apalis"
    share = 0.5
    unfair = ("An order counts as ended once its last step has been called, a moment before that is recorded: "
              "in its favour. A step's task and the next one's are stored by two transactions.")

    @classmethod
    def build(cls):
        cls.worker = build.peer("peer-apalis")
        cls.settings = ("One worker with 64 tasks at once, 16 connections, woken by the database, a sign of life every "
                        f"5 s; {SETTINGS.format(version=version())}.")

    def launch(self, is_fresh):
        if is_fresh:
            self.database, self.starts = Postgres(self), 0
            self.port, = machine.free_ports(1)
        self.starts += 1
        self.database.launch(is_fresh)
        self.run("apalis", [self.worker, "--listen", f"127.0.0.1:{self.port}", "--service", self.service,
                            "--database", self.database.url("postgres"), "--name", f"worker-{self.starts}"])
        machine.until("apalis", lambda: machine.answers(f"http://127.0.0.1:{self.port}/"))

    def waited(self):
        return [f"http://127.0.0.1:{self.port}/orders?wait"]

    def accepted(self):
        return [f"http://127.0.0.1:{self.port}/orders"]
