"""DBOS for Python on PostgreSQL, behind FastAPI."""

import os

from .. import build, machine
from .postgres import SETTINGS, OnPostgres, Postgres, version

PROCESSES = 2


class Dbos(OnPostgres):
    name = "dbos"
    title = "DBOS"
    share = 0.2
    unfair = ("It is Python, which is most of its processor time; its makers' point is that it needs no server "
              "beside the database. Its engine for Go was not measured.")

    @classmethod
    def build(cls):
        cls.python = build.python()
        cls.settings = (f"{PROCESSES} processes of uvicorn with FastAPI, whose handler runs the workflow; "
                        f"{SETTINGS.format(version=version())}. The load is spread over the processes.")

    def launch(self, is_fresh):
        if is_fresh:
            self.database = Postgres(self)
            self.ports = machine.free_ports(PROCESSES)
        self.database.launch(is_fresh)
        for number, port in enumerate(self.ports):
            self.run(f"dbos-{number}", [self.python, build.PEERS / "dbos" / "app.py", "--port", port],
                     env={**os.environ, "DBOS_DATABASE": self.database.url("postgresql"),
                          "DBOS_EXECUTOR": f"executor-{number}", "SERVICE": self.service})
            # Started one by one, because the first process creates the tables.
            machine.until("DBOS", lambda: machine.answers(f"http://127.0.0.1:{port}/"))

    def waited(self):
        return [f"http://127.0.0.1:{port}/orders" for port in self.ports]

    def accepted(self):
        return [f"http://127.0.0.1:{port}/orders/accepted" for port in self.ports]
