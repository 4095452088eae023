"""The measurements: each returns the figures of one system in one run."""

import json
import resource
import subprocess
import threading
import time

from . import machine

IN_FLIGHT = 64


class Bench:
    """The load generator and the service, which all systems share."""

    def __init__(self, tools, place):
        self.tools, self.place = tools, place
        port, = machine.free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.service = machine.Process(
            place / "service.log", [tools / "triad-bench-service", "--listen", f"127.0.0.1:{port}"])
        machine.until("the service", self.counted)
        self.loads = 0

    def counted(self):
        return json.loads(machine.get(f"{self.url}/_counted"))

    def forget(self):
        machine.get(f"{self.url}/_forget", b"")

    def missing(self, ids):
        return json.loads(machine.get(f"{self.url}/_missing", "\n".join(ids).encode(), within=60))["missing"]

    def command(self, urls, orders, in_flight, *further):
        """The command of a load whose order ids are unique."""
        self.loads += 1
        each = [word for url in urls for word in ("--url", url)]
        return [self.tools / "triad-bench-load", *each, "--orders", str(orders), "--in-flight", str(in_flight),
                "--prefix", f"run{int(time.time())}x{self.loads}", *further]

    def load(self, urls, orders, in_flight, *further):
        """Runs a load to its end; returns its figures, and the CPU time it used."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(self.command(urls, orders, in_flight, *further), capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise RuntimeError(f"the load failed: {done.stdout}{done.stderr}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(done.stdout), cpu

    def stop(self):
        self.service.stop()


def measured(bench, system, orders, in_flight, *further):
    """Runs orders that are answered when they end; returns their figures and what the system used."""
    meter = machine.Meter(system.ids(), [bench.service.pid])
    figures, cpu = bench.load(system.waited(), orders, in_flight, *further)
    return {"orders": orders, "in_flight": in_flight, "per_second": figures["per_second"], "ms": figures["ms"],
            "later": figures["later"], **meter.read(orders, cpu)}


def throughput(bench, system, orders):
    return measured(bench, system, orders, IN_FLIGHT)


def alone(bench, system, orders):
    return measured(bench, system, orders, 1)


def at_rate(bench, system, rate, seconds):
    """Submits orders at a constant rate, however long they take."""
    found = measured(bench, system, int(rate * seconds), 1024, "--rate", str(rate))
    return {**found, "rate": rate}


def recovery(bench, system, orders):
    """Kills all processes while orders run; measures the time until new orders are done, and counts repeated calls."""
    bench.forget()
    ids = bench.place / "accepted"
    load = subprocess.Popen(
        bench.command(system.accepted(), orders, IN_FLIGHT, "--accepted", str(ids)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    machine.until("four orders of ten have ended", lambda: bench.counted()["ended"] >= orders * 0.4, 300, 0.005)
    system.kill()
    load.wait()
    at_kill = bench.counted()
    accepted = ids.read_text().split()
    began = time.monotonic()
    starting = threading.Thread(target=system.start, args=(False,))
    starting.start()
    goes_on = machine.until(
        "it goes on", lambda: bench.counted()["distinct"] > at_kill["distinct"] and time.monotonic() - began, 120, 0.003)
    starting.join()
    machine.until("all have ended", lambda: bench.missing(accepted) == 0, 600, 0.1)
    done = time.monotonic() - began
    counted = bench.counted()
    return {"orders": orders, "accepted": len(accepted), "ended_at_kill": at_kill["ended"], "goes_on_s": goes_on,
            "all_done_s": done, "calls": counted["calls"], "calls_again": counted["repeated"]}


def long_run(bench, system, orders, rate=None, every=5.0):
    """Runs many orders, and measures memory and disk meanwhile."""
    further = ["--rate", str(rate)] if rate else []
    bench.forget()
    load = subprocess.Popen(
        bench.command(system.waited(), orders, IN_FLIGHT, *further), stdout=subprocess.PIPE, text=True)
    began, series, cpu = time.monotonic(), [], machine.used(system.ids())
    while load.poll() is None:
        time.sleep(every)
        used = machine.used(system.ids())
        series.append({
            "s": time.monotonic() - began, "ended": bench.counted()["ended"], "mb": machine.memory(system.ids()),
            "disk_mb": machine.disk(system.place), "cores": (used - cpu) / every})
        cpu = used
    figures = json.loads(load.stdout.read())
    return {"orders": orders, "rate": rate, "per_second": figures["per_second"], "ms": figures["ms"],
            "failed": figures["failed"], "later": figures["later"], "series": series}
