#!/usr/bin/env python3
"""Where the processor time of `triad serve` goes, by part: perf's samples while orders run through it.

    tests/benchmarks/profile.py                        20,000 orders, 64 in flight, release build
    tests/benchmarks/profile.py --orders 5000 --top 30

Needs perf (Debian: linux-perf) and the right to use it. A sample belongs to the part of the innermost frame
that is no part of the standard library: what a crate allocates or copies is its own, where the stack says
who asked for it, and "memory" otherwise.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The first pattern that matches a symbol gives its part.
PARTS = [
    ("store: SQLite", r"^(sqlite3|rusqlite|pcache|btree|pager|wal[A-Z]|vdbe|balance_|cellS|moveTo|fillIn|insertCell|libsqlite3)"),
    ("topics", r"triad_sqlite::(topics|catalogue)"),
    ("store: ours", r"triad_sqlite"),
    ("Kafka port", r"triad_broker|kafka_protocol|crc32c"),
    ("consumer loops", r"triad_consume"),
    ("ingress", r"triad_ingress"),
    ("HTTP client", r"reqwest|triad_http|hyper_util::client|hyper::client"),
    ("HTTP", r"^(<?hyper|<?http|<?httparse|<?h2|<?tower)"),
    ("expressions", r"cel|triad_workflow"),
    ("core", r"triad_core"),
    ("handlers", r"triad_runtime|triad_worker|triad_bootstrap|triad_operator"),
    ("JSON", r"serde|itoa|ryu|zmij"),
    ("log lines", r"tracing|log::"),
    ("runtime", r"tokio|futures|mio|parking_lot|crossbeam"),
]
PARTS = [(name, re.compile(pattern)) for name, pattern in PARTS]
LIBRARY = re.compile(r"^(<?(core|alloc|std|hashbrown|bytes|indexmap)::|<?&?\[|<?alloc|mi_|_mi_|__rust|malloc|free|cfree|realloc|_int_|mem|__mem|_?_?str|je_|\[unknown\])")


def part_of(frames):
    """The part that a sample belongs to; `frames` from the innermost outwards."""
    if frames and (frames[0].startswith("[k]") or frames[0].endswith("_[k]")):
        return "kernel"
    for frame in frames:
        if LIBRARY.match(frame):
            continue
        for name, pattern in PARTS:
            if pattern.search(frame):
                return name
    # The caller is unknown, because the stack has no frame pointers there.
    return "memory" if frames and LIBRARY.match(frames[0]) else "other"


def ready(url, within=30):
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    sys.exit(f"profile: {url} did not answer within {within} s")


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def samples(data):
    """The stacks of perf's samples, innermost frame first."""
    script = subprocess.run(
        ["perf", "script", "-i", data, "-F", "comm,ip,sym,dso"],
        capture_output=True, text=True, check=True, errors="replace")
    thread, frames = None, []
    for line in script.stdout.splitlines():
        if not line.strip():
            if thread is not None:
                yield thread, frames
            thread, frames = None, []
        elif not line[0].isspace():
            thread = line.strip()
        else:
            found = re.match(r"\s+[0-9a-f]+ (.*?)(?: \((.*)\))?$", line)
            if found:
                symbol, dso = found.group(1), found.group(2) or ""
                frames.append("[k]" + symbol if "kernel" in dso else symbol)
    if thread is not None:
        yield thread, frames


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--orders", type=int, default=20_000)
    args.add_argument("--in-flight", type=int, default=64)
    args.add_argument("--top", type=int, default=0, help="also print so many symbols")
    args.add_argument("--data", help="where the data directory is made (the disk to measure on)")
    args = args.parse_args()
    for tool in ("perf", "cargo"):
        if not shutil.which(tool):
            sys.exit(f"profile: {tool} is missing; install it first")
    env = dict(os.environ, CARGO_PROFILE_RELEASE_DEBUG="0")
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "triad", "-p", "triad-reference-service"],
                   cwd=ROOT, env=env, check=True)
    subprocess.run(["cargo", "build", "--release", "--locked", "--target-dir", ROOT / "target" / "load"],
                   cwd=ROOT / "tests" / "benchmarks" / "load", check=True)
    place = Path(tempfile.mkdtemp(prefix="triad-profile-", dir=args.data))
    started = []
    try:
        profile(args, place, started)
    finally:
        for process in reversed(started):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
        shutil.rmtree(place, ignore_errors=True)


def profile(args, place, started):
    service, http, kafka = free_port(), free_port(), free_port()
    binaries = ROOT / "target" / "release"
    started.append(subprocess.Popen(
        [binaries / "triad-reference-service", "--listen", f"127.0.0.1:{service}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    steps = ["inventory", "payment", "shipping"]
    (place / "flows").mkdir()
    (place / "flows" / "three-steps.yaml").write_text(json.dumps({
        "workflow": "three-steps",
        "steps": [{"id": s, "agent": s, "action": s, "attempt_timeout": "30s", "compensation": "none"} for s in steps]}))
    (place / "triad.yaml").write_text(json.dumps({
        "workflows": str(place / "flows"), "http": f"127.0.0.1:{http}", "kafka": f"127.0.0.1:{kafka}",
        "agents": {s: {"base_url": f"http://127.0.0.1:{service}/{s}"} for s in steps}}))
    serve = subprocess.Popen(
        [binaries / "triad", "serve", "--config", place / "triad.yaml", "--data", place / "data"],
        stdout=subprocess.DEVNULL, stderr=(place / "serve.log").open("w"))
    started.append(serve)
    ready(f"http://127.0.0.1:{http}/readyz")
    data = place / "perf.data"
    perf = subprocess.Popen(["perf", "record", "-q", "-F", "499", "--call-graph", "fp", "-p", str(serve.pid), "-o", data])
    started.append(perf)
    load = subprocess.run(
        [ROOT / "target" / "load" / "release" / "triad-bench-load",
         "--url", f"http://127.0.0.1:{http}/v1/orders?wait=60s", "--orders", str(args.orders),
         "--in-flight", str(args.in_flight)],
        capture_output=True, text=True)
    used = sum(float(x) for x in Path(f"/proc/{serve.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])
    used /= os.sysconf("SC_CLK_TCK")
    perf.send_signal(signal.SIGINT)
    perf.wait(60)
    if load.returncode != 0:
        sys.exit(f"profile: the orders did not run: {load.stdout}{load.stderr}")
    figures = json.loads(load.stdout)
    parts, symbols, threads = Counter(), Counter(), Counter()
    for thread, frames in samples(data):
        parts[part_of(frames)] += 1
        threads[thread] += 1
        if frames:
            symbols[frames[0]] += 1
    total = sum(parts.values()) or 1
    print(f"{figures['per_second']:.0f} orders/s, {used / args.orders * 1000:.2f} s of processor time a thousand orders, "
          f"p50 {figures['ms']['p50']:.1f} ms, p99 {figures['ms']['p99']:.1f} ms")
    for title, counter in (("part", parts), ("thread", threads)):
        print(f"\n{title:<24} share   ms a thousand orders")
        for name, count in counter.most_common(20):
            share = count / total
            print(f"{name:<24} {share:5.1%}   {share * used / args.orders * 1e6:8.0f}")
    if args.top:
        print("\nsymbols, without what they call")
        for name, count in symbols.most_common(args.top):
            print(f"{count / total:6.1%}  {name[:140]}")


if __name__ == "__main__":
    main()
