#!/usr/bin/env python3
"""Triad beside other engines: the same orders of three steps, the same service, on this machine, in turns.

    tests/benchmarks/compare.py                                 everything: builds, some two hours of runs, the page
    tests/benchmarks/compare.py --systems triad,restate         these alone
    tests/benchmarks/compare.py --what throughput --rounds 3    one measurement
    tests/benchmarks/compare.py --page                          docs/reference/benchmarks.md again, from what was measured

It builds or installs each engine from its registry into target/benchmarks, waits until nobody else uses the
machine, lets the engines take turns, and writes docs/reference/benchmarks.md and its plots. What it measures is added to
docs/benchmarks/results.jsonl, which --fresh empties first. Everything listens on 127.0.0.1 and is stopped at
the end.

Needs cargo, npm and python3 with venv; for DBOS and apalis PostgreSQL (Debian: postgresql), and for duroxide
OpenSSL's headers (Debian: libssl-dev).
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import build, machine, measure, systems

RESULTS = build.ROOT / "docs" / "benchmarks" / "results.jsonl"
# A run with traces is this many times as long, because an exporter makes its first connection only once.
TRACED_TIMES = 6
WHAT = ("throughput", "alone", "rates", "recovery", "memory", "stored", "traces", "steady")
RATES = (50, 100, 200, 400, 800, 1200, 1600, 2000, 2500, 3000, 3500, 4000)


def main():
    args = arguments()
    if not args.page:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        build.PLACE.mkdir(parents=True, exist_ok=True)
        if args.fresh:
            RESULTS.unlink(missing_ok=True)
        measure_all(args)
    # Runs itself again with the interpreter that has the plotting packages.
    interpreter = build.python()
    build.run([interpreter, "-m", "harness.report", RESULTS], cwd=build.ROOT / "tests" / "benchmarks")


def arguments():
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ",".join(systems.ALL)
    said.add_argument("--systems", default=names, help=f"which, of {names}")
    said.add_argument("--what", default=",".join(WHAT), help=f"which measurements, of {','.join(WHAT)}")
    said.add_argument("--rounds", type=int, default=5, help="runs of each system, in turns")
    said.add_argument("--orders", type=int, default=6000, help="orders of a run; slow systems get a share of them")
    said.add_argument("--seconds", type=float, default=10, help="how long each rate is kept up")
    said.add_argument("--memory-orders", type=int, default=1_000_000, help="orders of the run for memory")
    said.add_argument("--memory-systems", default="triad,restate", help="whose memory is followed")
    said.add_argument("--steady-seconds", type=int, default=3600, help="how long the steady run is")
    said.add_argument("--data", default=None, help="where data is kept meanwhile (the disk to measure on)")
    said.add_argument("--triad", metavar="FILE", help="measure this program, and build none")
    said.add_argument("--remark", default="", help="what the page is to say of this sitting, such as what else ran")
    said.add_argument("--fresh", action="store_true", help="forget what was measured before")
    said.add_argument("--page", action="store_true", help="measure nothing, write the page")
    args = said.parse_args()
    for option, known in (("systems", systems.ALL), ("memory_systems", systems.ALL), ("what", WHAT)):
        words = [word for word in getattr(args, option).split(",") if word]
        unknown = [word for word in words if word not in known]
        if unknown:
            said.error(f"--{option.replace('_', '-')}: {', '.join(unknown)} is none of {', '.join(known)}")
        setattr(args, option, words)
    return args


def measure_all(args):
    tools = build.tools()
    chosen = [systems.ALL[name] for name in args.systems]
    needed = set(chosen) | ({systems.ALL[name] for name in args.memory_systems} if "memory" in args.what else set())
    for system in needed | {systems.Floor}:
        if args.triad and system is systems.Triad:
            system.binary = Path(args.triad).resolve(strict=True)
        else:
            system.build()
    place = Path(args.data) if args.data else build.PLACE / "data"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    bench = measure.Bench(tools, place)
    try:
        record({"what": "machine", **about(bench, place), **({"remark": args.remark} if args.remark else {})})
        runs(args, bench, chosen, place)
    finally:
        bench.stop()
        shutil.rmtree(place, ignore_errors=True)


def runs(args, bench, chosen, place):
    for number in range(args.rounds):
        # The order of the systems rotates, so that no system always runs after the same other one.
        for system in chosen[number % len(chosen):] + chosen[:number % len(chosen)]:
            one_round(args, bench, system, place, number)
    if "rates" in args.what:
        for system in chosen:
            with_system(bench, system, place, lambda running: rates(args, bench, running))
    if "memory" in args.what:
        for name in args.memory_systems:
            system = systems.ALL[name]
            if system is not systems.Triad or "stored" not in args.what:
                with_system(bench, system, place, lambda running: memory(args, bench, running))
    if "stored" in args.what and systems.Triad in chosen:
        stored(args, bench, place)
    if "traces" in args.what and systems.Triad in chosen:
        traces(args, bench, place)
    if "steady" in args.what and systems.Triad in chosen:
        steady = type("Steady", (systems.Triad,), {
            "steps": systems.triad.STEPS + systems.triad.STEPS[:2], "further": systems.triad.SMALL_DISK})
        with_system(bench, steady, place, lambda running: note(
            running, "steady", 0, measure.long_run(bench, running, 100 * args.steady_seconds, rate=100, every=10.0)))


def one_round(args, bench, system, place, number):
    orders = max(200, int(args.orders * system.share))

    def measured(running):
        for what, count in (("throughput", orders), ("alone", min(400, orders))):
            if what in args.what:
                note(running, what, number, getattr(measure, what)(bench, running, count))

    if {"throughput", "alone"} & set(args.what):
        with_system(bench, system, place, measured)
    if "recovery" in args.what:
        with_system(bench, system, place, lambda running: note(
            running, "recovery", number, measure.recovery(bench, running, min(5000, orders))))


def rates(args, bench, system):
    for rate in RATES:
        found = measure.at_rate(bench, system, rate, args.seconds)
        note(system, "rates", 0, found)
        if found["per_second"] < 0.9 * rate:
            return


def memory(args, bench, running):
    note(running, "memory", 0, measure.long_run(bench, running, args.memory_orders))


def stored(args, bench, place):
    """Measures Triad's start and speed with as many stored orders as the run for memory has, and its speed with none."""
    full = type("Stored", (systems.Triad,), {})
    full.name = "triad-stored"

    def runs_of(running):
        running.name = systems.Triad.name
        memory(args, bench, running)
        for number in range(args.rounds):
            running.kill()
            began = time.monotonic()
            running.start(False)
            found = {"start_s": time.monotonic() - began, "stored": args.memory_orders}
            note(running, "stored", number, {**found, **measure.throughput(bench, running, args.orders)})
            # The full and the empty system alternate, so that a slow minute of the machine slows both.
            running.kill()
            with_system(bench, systems.Triad, place, lambda empty: note(
                empty, "empty", number, measure.throughput(bench, empty, args.orders)))

    with_system(bench, full, place, runs_of)


def traces(args, bench, place):
    """Measures Triad with one order in a hundred traced, and without traces."""
    sink = machine.Sink()
    traced = type("Traced", (systems.Triad,), {"further": {"traces": {"endpoint": sink.url, "sample": 0.01}}})
    for number in range(args.rounds):
        for what, system in (("untraced", systems.Triad), ("traced", traced)):
            with_system(bench, system, place, lambda running, what=what: note(
                running, what, number,
                {**measure.throughput(bench, running, TRACED_TIMES * args.orders), "posts": sink.posts}))
    sink.stop()


def with_system(bench, system, place, work):
    """Starts a system on new data, warms it up, and measures it."""
    running = system(place / system.name, bench.url)
    running.before = machine.wait_until_quiet()
    try:
        running.start(True)
        bench.load(running.waited(), max(100, int(500 * system.share)), 16)
        bench.forget()
        work(running)
    except (RuntimeError, TimeoutError) as error:
        # Printed on the terminal only: logs and backtraces contain paths of this machine.
        for log in sorted(running.place.glob("*.log")):
            print(f"{log.name}: {log.read_text(errors='replace')[-400:]}", file=sys.stderr, flush=True)
        why = str(error).split("Stack backtrace:")[0].strip()
        record({"system": system.name, "what": "failed", "why": why[:500]})
    finally:
        running.stop()
        shutil.rmtree(running.place, ignore_errors=True)


def note(system, what, number, found):
    record({"system": system.name, "what": what, "round": number, "before": round(system.before, 3), **found})


def record(line):
    line["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(RESULTS, "a") as file:
        file.write(json.dumps(line) + "\n")
    shown = {key: value for key, value in line.items() if key not in ("series", "settings")}
    print(json.dumps(shown), flush=True)


def about(bench, place):
    """Describes this machine, and measures its disk and loopback without any engine."""
    floor = subprocess.run([systems.Floor.binary, "--data", place, "--service", bench.url],
                           capture_output=True, text=True, check=True)
    cpu = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=build.ROOT, capture_output=True, text=True)
    return {
        **json.loads(floor.stdout), "cpus": os.cpu_count(), "cpu": cpu[0] if cpu else platform.processor(),
        "kernel": platform.release(), "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        # With the prefix `git:`, because scanners for secrets take a bare hash in quotes for a key.
        "commit": f"git:{commit.stdout.strip()}",
        "settings": {s.name: [s.title, s.settings, s.unfair] for s in systems.ALL.values()},
    }


if __name__ == "__main__":
    main()
