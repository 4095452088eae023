"""DBOS for Rust on PostgreSQL."""

from .. import build, machine
from .postgres import SETTINGS, OnPostgres, Postgres, version


class Dbos(OnPostgres):
    name = "dbos"
    title = "DBOS for Rust"
    share = 0.5
    unfair = ("Its makers' point is that it needs no server beside the database. Its engines for Python, TypeScript, "
              "Go and Java were not measured.")

    @classmethod
    def build(cls):
        cls.worker = build.peer("peer-dbos")
        cls.settings = ("DBOS for Rust 0.5.0 in one process, which takes the orders and runs their workflows; "
                        f"16 connections; {SETTINGS.format(version=version())}.")

    def launch(self, is_fresh):
        if is_fresh:
            self.database = Postgres(self)
            self.port, = machine.free_ports(1)
        self.database.launch(is_fresh)
        self.run("dbos", [self.worker, "--listen", f"127.0.0.1:{self.port}", "--service", self.service,
                          "--database", self.database.url("postgres")])
        machine.until("DBOS", lambda: machine.answers(f"http://127.0.0.1:{self.port}/"))

    def waited(self):
        return [f"http://127.0.0.1:{self.port}/orders?wait"]

    def accepted(self):
        return [f"http://127.0.0.1:{self.port}/orders"]
