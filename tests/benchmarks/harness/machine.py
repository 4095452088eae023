"""Starts processes, and measures their CPU time, memory and disk."""

import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

TICKS = os.sysconf("SC_CLK_TCK")
CPUS = os.cpu_count() or 1
# A run is marked if other processes use more than this share of the machine while it is measured.
QUIET = 0.1


def fail(why):
    sys.exit(f"benchmark: {why}")


def free_ports(count):
    """Ports of the loopback that are free now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


def tool(name, package):
    found = shutil.which(name)
    if not found:
        fail(f"{name} is missing; install it first (Debian: apt-get install {package})")
    return found


def get(url, body=None, within=5):
    """The body of a successful answer."""
    request = urllib.request.Request(url, data=body, method="GET" if body is None else "POST")
    with urllib.request.urlopen(request, timeout=within) as answer:
        return answer.read()


def until(what, is_so, within=60.0, every=0.02):
    """Waits until a condition is true, and returns its value."""
    end, why = time.monotonic() + within, None
    while time.monotonic() < end:
        try:
            found = is_so()
            if found:
                return found
        except (OSError, urllib.error.URLError, ValueError) as error:
            why = error
        time.sleep(every)
    raise TimeoutError(f"{what}: not within {within:.0f} s ({why})")


def answers(url):
    """Whether the URL gives a successful answer."""
    get(url)
    return True


class Process:
    """A process with a log file. It is stopped by its id, together with its children."""

    def __init__(self, log, command, **further):
        self.log = log
        with open(log, "ab") as out:
            self.child = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out, **further)

    @property
    def pid(self):
        return self.child.pid

    def is_alive(self):
        return self.child.poll() is None

    def stop(self, by=signal.SIGTERM, within=20):
        ids = tree([self.pid]) if self.is_alive() else []
        if by == signal.SIGKILL:
            for one in ids:
                tell(one, by)
        elif ids:
            tell(self.pid, by)
        try:
            self.child.wait(within)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        for one in ids[1:]:
            if os.path.exists(f"/proc/{one}"):
                tell(one, signal.SIGKILL)


class Sink:
    """An HTTP server that accepts every POST and counts them."""

    def __init__(self):
        sink = self
        self.posts = 0

        class Taken(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                sink.posts += 1
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taken)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()


def tell(process, by):
    try:
        os.kill(process, by)
    except ProcessLookupError:
        pass


def stat(process):
    """The fields of /proc/PID/stat, from the third on."""
    with open(f"/proc/{process}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()


def tree(processes):
    """The ids of these processes and of all their descendants."""
    below = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                below.setdefault(int(stat(name)[1]), []).append(int(name))
            except OSError:
                pass
    found, left = [], list(processes)
    while left:
        one = left.pop(0)
        if one not in found:
            found.append(one)
            left += below.get(one, [])
    return found


def used(processes):
    """CPU seconds of these processes and their descendants, including ended ones."""
    total = 0
    for one in tree(processes):
        try:
            total += sum(int(field) for field in stat(one)[11:15])
        except OSError:
            pass
    return total / TICKS


def memory(processes):
    """MB of memory of these processes and their descendants; shared memory is divided among its users."""
    total = 0
    for one in tree(processes):
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def disk(directory):
    """MB of the files below a directory."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_blocks * 512
            except OSError:
                pass
    return total / 1e6


def busy():
    """CPU seconds that all processes have used since the machine started."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4] - fields[7]) / TICKS


def others(span=1.0):
    """The share of the machine that other processes use; the benchmark is idle meanwhile."""
    before, mine = busy(), sum(os.times()[:2])
    time.sleep(span)
    return max(0.0, busy() - before - sum(os.times()[:2]) + mine) / (span * CPUS)


def wait_until_quiet(within=120):
    """Waits until other processes use little of the machine, and returns their share."""
    end = time.monotonic() + within
    while True:
        share = others()
        if share <= QUIET or time.monotonic() > end:
            return share


class Meter:
    """Measures what processes use from now on."""

    def __init__(self, processes, known):
        """`known`: further processes of the benchmark, which do not count as others."""
        self.processes, self.known = list(processes), list(known)
        self.used, self.of_known, self.busy = used(self.processes), used(self.known), busy()
        self.mine, self.began, self.peak = sum(os.times()[:2]), time.monotonic(), 0.0
        self.ended = threading.Event()
        self.watch = threading.Thread(target=self.sample, daemon=True)
        self.watch.start()

    def sample(self):
        while not self.ended.wait(0.5):
            self.peak = max(self.peak, memory(self.processes))

    def read(self, orders, load_cpu):
        """The figures for this many orders; `load_cpu`: CPU seconds of load generators that have ended."""
        self.ended.set()
        self.watch.join()
        seconds = time.monotonic() - self.began
        cpu = used(self.processes) - self.used
        ours = cpu + used(self.known) - self.of_known + load_cpu + sum(os.times()[:2]) - self.mine
        return {
            "cpu_per_thousand": cpu * 1000 / orders,
            "peak_mb": max(self.peak, memory(self.processes)),
            "others": max(0.0, busy() - self.busy - ours) / (seconds * CPUS),
        }
