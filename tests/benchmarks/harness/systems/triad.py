"""Triad: `triad serve`, one process, every state write synced."""

import json

from .. import build, machine
from .system import System

STEPS = ("reserve", "charge", "ship")
# Short retention, so that a run of minutes shows that finished orders and the log are deleted. No consumer group
# reads the topic of statuses, so it is limited by size: four partitions of 16 MiB each are full after some 20
# minutes.
SMALL_DISK = {"retention": "10m", "details_retention": "10m", "log_retention": "10m", "log_bytes": 16 << 20}


class Triad(System):
    name = "triad"
    title = "Triad"
    settings = "`triad serve` as it comes, built as for production: every write of an order's state is synced before anything follows from it."
    unfair = ""
    # The steps of the workflow, in order; a longer workflow names some of them twice.
    steps = STEPS
    further = {}

    @classmethod
    def build(cls):
        cls.binary = build.triad()

    def launch(self, is_fresh):
        http, kafka = machine.free_ports(2)
        self.http = f"http://127.0.0.1:{http}"
        if is_fresh:
            (self.place / "flows").mkdir()
            steps = [{"id": f"{step}-{number}", "agent": step, "action": step, "attempt_timeout": "30s",
                      "compensation": "none"} for number, step in enumerate(self.steps)]
            flow = {"workflow": "three-steps", "steps": steps}
            (self.place / "flows" / "three-steps.yaml").write_text(json.dumps(flow))
        config = {
            "workflows": str(self.place / "flows"), "http": f"127.0.0.1:{http}", "kafka": f"127.0.0.1:{kafka}",
            "agents": {step: {"base_url": f"{self.service}/{step}"} for step in STEPS}, **self.further}
        (self.place / "triad.yaml").write_text(json.dumps(config))
        self.run("triad", [self.binary, "serve", "--config", self.place / "triad.yaml", "--data", self.place / "data"])
        machine.until("triad is ready", lambda: machine.answers(f"{self.http}/readyz"), every=0.005)

    def waited(self):
        return [f"{self.http}/v1/orders?wait=60s"]

    def accepted(self):
        return [f"{self.http}/v1/orders"]
