"""The installed PostgreSQL with its default settings, on a new cluster."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from .. import machine
from .system import System

SETTINGS = "PostgreSQL {version} as it comes (`fsync` and `synchronous_commit` on)"


def programs():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    return Path(machine.tool("initdb", "postgresql")).parent


def version():
    said = subprocess.run([programs() / "postgres", "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split()[2]


class Postgres:
    """A cluster in a directory; its process counts as one of the measured system."""

    def __init__(self, system):
        self.system, self.place = system, system.place / "postgres"
        # PostgreSQL refuses to run as root.
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []

    def launch(self, is_fresh):
        if is_fresh:
            self.port, = machine.free_ports(1)
            self.place.mkdir()
            if self.user:
                shutil.chown(self.place, "postgres", "postgres")
            subprocess.run(
                [*self.user, programs() / "initdb", "-D", self.place / "data", "-A", "trust", "-U", "postgres",
                 "--no-locale", "-E", "UTF8"], check=True, cwd="/", stdout=subprocess.DEVNULL)
        self.system.run(
            "postgres", [*self.user, programs() / "postgres", "-D", self.place / "data", "-p", self.port,
                         "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.place}"], cwd="/")
        machine.until("PostgreSQL", lambda: self.ask("select 1") == "1")
        if is_fresh:
            self.ask("create database orders")

    def ask(self, statement):
        asked = subprocess.run(
            [programs() / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-AtXc", statement],
            capture_output=True, text=True)
        return asked.stdout.strip()

    def url(self, scheme):
        return f"{scheme}://postgres@127.0.0.1:{self.port}/orders"


class OnPostgres(System):
    """A system whose first process is PostgreSQL."""

    def end(self, by):
        if by == signal.SIGKILL or not self.processes:
            super().end(by)
            return
        database, *self.processes = self.processes
        super().end(signal.SIGKILL)
        # SIGINT is PostgreSQL's fast shutdown, which disconnects the clients.
        database.stop(signal.SIGINT)
