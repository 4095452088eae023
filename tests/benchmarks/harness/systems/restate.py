"""Restate: a server of one node, and an endpoint with its SDK for Rust."""

import json
import os
import signal

from .. import build, machine
from .system import System

CONFIG = """node-name = "one"
cluster-name = "benchmark"
base-dir = {data}
listen-mode = "tcp"
bind-ip = "127.0.0.1"
advertised-host = "127.0.0.1"
bind-port = {node}
disable-telemetry = true
log-filter = "warn"

[ingress]
bind-port = {ingress}

[admin]
bind-port = {admin}
"""


class Restate(System):
    name = "restate"
    title = "Restate"
    settings = ("One node with all roles and its defaults (log server with synced WAL, 24 partitions); a workflow "
                "with three `ctx.run`, keyed by the order, on the SDK for Rust, its listener with `TCP_NODELAY`. "
                "Orders are posted to the workflow's `run` and answered at its end.")
    unfair = ("Its server and its endpoint are two processes that speak HTTP/2 to each other, by design: user "
              "code runs apart. Triad's agents call services over HTTP from its own process.")

    @classmethod
    def build(cls):
        cls.server, cls.worker = build.restate(), build.peer("peer-restate")

    def launch(self, is_fresh):
        if is_fresh:
            self.ports = machine.free_ports(4)
        node, ingress, admin, worker = self.ports
        self.ingress = f"http://127.0.0.1:{ingress}"
        config = self.place / "restate.toml"
        data = json.dumps(str(self.place / "data"))
        config.write_text(CONFIG.format(data=data, node=node, ingress=ingress, admin=admin))
        self.run("worker", [self.worker, "--listen", f"127.0.0.1:{worker}", "--service", self.service])
        self.run("server", [self.server, "--no-logo", "--config-file", config],
                 env={**os.environ, "RESTATE_DISABLE_TELEMETRY": "true"})
        admin = f"http://127.0.0.1:{admin}"
        machine.until("Restate's admin", lambda: machine.answers(f"{admin}/health"), every=0.005)
        if is_fresh:
            deployment = json.dumps({"uri": f"http://127.0.0.1:{worker}", "force": True}).encode()
            machine.until("the endpoint is known", lambda: self.register(admin, deployment), every=0.2)
        machine.until("Restate's ingress", lambda: machine.answers(f"{self.ingress}/restate/health"), every=0.005)

    @staticmethod
    def register(admin, deployment):
        request = machine.urllib.request.Request(
            f"{admin}/deployments", data=deployment, headers={"content-type": "application/json"})
        with machine.urllib.request.urlopen(request, timeout=10):
            return True

    def end(self, by):
        # Killed, because on SIGTERM its server waits long for its partitions, and its data are not needed any more.
        super().end(signal.SIGKILL)

    def waited(self):
        return [f"{self.ingress}/Orders/{{id}}/run"]

    def accepted(self):
        return [f"{self.ingress}/Orders/{{id}}/run/send"]
