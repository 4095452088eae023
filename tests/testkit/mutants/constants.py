"""Changes every constant of shared/kernel/core and shared/kernel/runtime, one at a time: tests/constants.sh."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import rust_text
from rust_text import Source, is_no_change

ROOT = Path(__file__).resolve().parents[3]
COPY = ROOT / "target" / "constants"
BUILT = ROOT / "target" / "switched"
REASONS = ROOT / "tests" / "testkit" / "mutants" / "constants.txt"
SEEDS = os.environ.get("TRIAD_SEEDS", "3000")
# The crates whose constants are changed; their constants are also used in other crates that run.
CRATES = {"core": "shared/kernel/core", "runtime": "shared/kernel/runtime"}
USERS = ["shared/kernel/core", "shared/kernel/runtime", "shared/operations/operator", "tests/testkit/sim"]
TESTED = ["triad-core", "triad-runtime", "triad-operator"]
# A mutant counts as hanging after this many times the duration of the unchanged code, plus a minute.
PATIENCE = 20
CHANGES = {"Millis": ["half", "double"]}
COUNT_CHANGES = ["less", "more"]


class Constant:
    """A named number, or the default of a setting."""

    def __init__(self, name, file, kind, own):
        self.name, self.file, self.kind, self.own = name, file, kind, own
        self.short = name.rsplit("/", 1)[1]
        self.module = Path(file).parent.name if Path(file).stem == "mod" else Path(file).stem
        self.uses = 0
        self.fixed = []

    @property
    def changes(self):
        return CHANGES.get(self.kind, COUNT_CHANGES)


def find_constants(root):
    """The constants in code other than tests, and the numbers in `Default` of settings."""
    found = []
    for crate, folder in CRATES.items():
        for path in sorted((root / folder / "src").rglob("*.rs")):
            file = str(path.relative_to(root))
            where = path.relative_to(root / folder / "src").with_suffix("").as_posix()
            where = crate + "/" + where.removesuffix("/mod")
            source = Source(path.read_text())
            for at, name, kind, own in source.constants():
                if at < source.tests_at:
                    found.append(Constant(f"{where}/{name}", file, kind, own))
            for _, _, name, kind, own in source.defaults():
                found.append(Constant(f"{where}/{name}", file, kind, own))
    return found


def make_copy():
    """The work tree without what is ignored, in which every use can be switched."""
    if COPY.exists():
        shutil.rmtree(COPY)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")
    for name in listed:
        if name and not name.startswith("tests/testkit/mutants/") and (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)
    constants = find_constants(COPY)
    for folder in USERS:
        for path in sorted((COPY / folder).rglob("*.rs")):
            text = path.read_text()
            changed = switch(text, path, constants)
            rewrite(path, changed)
    core = COPY / "shared/kernel/core/src"
    shutil.copy2(ROOT / "tests/testkit/mutants/switched.rs", core / "switched.rs")
    rewrite(core / "lib.rs", (core / "lib.rs").read_text() + "\npub mod switched;\n")
    return constants


def rewrite(path, text):
    """The file keeps its time of change, or has that of this tool, so that nothing is built again
    without need."""
    changed = [p.stat().st_mtime_ns for p in (path, Path(__file__), Path(rust_text.__file__))]
    path.write_text(text)
    os.utime(path, ns=(max(changed), max(changed)))


def switch(text, path, constants):
    """The text in which every use of a constant calls a function for its value."""
    file = str(path.relative_to(COPY))
    home = "crate" if file.startswith("shared/kernel/core/src") else "triad_core"
    source = Source(text)
    edits = []
    for start, end, name, _, _ in source.defaults():
        for constant in constants:
            if constant.file == file and constant.short == name:
                constant.uses += 1
                edits.append((start, end, constant))
    by_name = {}
    for constant in constants:
        by_name.setdefault(constant.short, []).append(constant)
    for start, end, name in source.names(set(by_name)):
        constant = source.which(start, end, name, by_name[name], file)
        if constant is None:
            continue
        why_fixed = source.is_fixed(start, end)
        if why_fixed == "definition":
            continue
        if why_fixed:
            constant.fixed.append(f"{file}:{text.count(chr(10), 0, start) + 1}, {why_fixed}")
            continue
        constant.uses += 1
        edits.append((start, end, constant))
    for start, end, constant in sorted(edits, key=lambda edit: edit[0], reverse=True):
        place = f'const {{ {home}::switched::digest("{constant.name}") }}'
        text = f"{text[:start]}{home}::switched::now({place}, {text[start:end]}){text[end:]}"
    return text


def build():
    """Compiles the test binaries and the simulated world; returns them in the order in which they run."""
    manifest = ["--locked", "--manifest-path", str(COPY / "Cargo.toml"), "--target-dir", str(BUILT)]
    packages = [part for name in TESTED for part in ("-p", name)]
    tests = subprocess.run(
        ["cargo", "test", "--no-run", "--lib", "--tests", "--message-format=json", *packages, *manifest],
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    binaries = []
    for line in tests.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            package = next(p for p in TESTED if p.removeprefix("triad-") in message["package_id"])
            binaries.append((TESTED.index(package), message["target"]["name"], message["executable"]))
    subprocess.run(["cargo", "build", "--release", "-p", "triad-sim", *manifest], check=True)
    return [(name, path) for _, name, path in sorted(binaries)], str(BUILT / "release" / "triad-sim")


def run(command, mutant, seconds, stop_at=None):
    """Runs a command with a mutant: its lines, its exit code (None: it did not end), its time. It is
    ended at the first line that has `stop_at`."""
    env = {**os.environ, "RUST_BACKTRACE": "0"}
    env.pop("TRIAD_CONSTANT", None)
    if mutant:
        env["TRIAD_CONSTANT"] = mutant
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=env, cwd=ROOT, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    late = threading.Event()

    def give_up():
        late.set()
        process.kill()

    timer = threading.Timer(seconds, give_up)
    timer.start()
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if stop_at and stop_at.search(line):
            process.kill()
            break
    process.wait()
    timer.cancel()
    return lines, None if late.is_set() else process.returncode, time.monotonic() - began


FAILED = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. FAILED")


class Runner:
    """The compiled copy, and the duration of each program without a mutant."""

    def __init__(self, tests, world):
        self.tests, self.world, self.took = tests, world, {}
        for name, path in tests:
            lines, code, took = run(self.test(path), None, 600)
            if code != 0:
                sys.exit("constants: the tests fail without a mutant:\n" + "\n".join(lines[-40:]))
            self.took[path] = took
        lines, code, took = run(self.seeds(), None, 3600)
        if code != 0:
            sys.exit("constants: the world fails without a mutant:\n" + "\n".join(lines[-40:]))
        self.took[world] = took

    def test(self, path):
        return [path, "--test-threads", "2"]

    def seeds(self):
        return [self.world, "seeds", "--seeds", SEEDS, "--threads", "1"]

    def run(self, command, mutant, stop_at=None):
        """Runs one of them with a mutant. What does not end is run once more: the machine may have
        stood still."""
        seconds = 60 + PATIENCE * self.took[command[0]]
        lines, code, took = run(command, mutant, seconds, stop_at)
        return (lines, code, took) if code is not None else run(command, mutant, seconds, stop_at)

    def caught(self, mutant):
        """What catches a mutant: a kind (`test`, `world`, `coverage`) and a name; None if nothing
        does."""
        for name, path in self.tests:
            lines, code, _ = self.run(self.test(path), mutant, FAILED)
            failed = next((m.group(1) for m in map(FAILED.match, lines) if m), None)
            if failed:
                return "test", f"{name}: {failed}"
            if code is None:
                return "test", f"{name}: does not end"
            if code != 0:
                return "test", f"{name}: ends with {code}"
        lines, code, _ = self.run(self.seeds(), mutant)
        for line in lines:
            breach = re.match(r"seed (\d+) FAILS with its first \d+ faults: ([^:]+)", line)
            if breach:
                return "world", f"{breach.group(2)} after {int(breach.group(1)) + 1} seeds"
        never = [line.split("NEVER", 1)[1].strip() for line in lines if "NEVER " in line]
        if never:
            return "coverage", "never reached: " + ", ".join(never)
        if code is None:
            return "world", "does not end"
        if code != 0:
            return "world", next((line for line in lines if "panicked" in line), f"ends with {code}")
        return None


def read_reasons():
    """For each mutant, the reason for which nothing needs to notice it; from lines `NAME CHANGE… = REASON`."""
    reasons = {}
    for number, line in enumerate(REASONS.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        mutants, _, reason = line.partition(" = ")
        name, *changes = mutants.split()
        if not reason.strip() or not changes:
            sys.exit(f"constants: line {number} of {REASONS.name} is no `NAME CHANGE… = REASON`")
        for change in changes:
            reasons[f"{name} {change}"] = reason.strip()
    return reasons


def main(arguments):
    flags = [a for a in arguments if a.startswith("-")]
    wanted = [a for a in arguments if not a.startswith("-")]
    if flags not in ([], ["--list"], ["--apply"]):
        sys.exit("constants: no such option; see tests/constants.sh")
    constants = make_copy()
    unknown = set(wanted) - {c.name for c in constants}
    if unknown:
        sys.exit(f"constants: there is no {', '.join(sorted(unknown))}")
    reasons = read_reasons()
    known = {f"{c.name} {change}" for c in constants for change in c.changes}
    broken = [f"{mutant}: there is no such mutant" for mutant in reasons if mutant not in known]
    if flags == ["--apply"]:
        print(COPY)
        return 0
    if flags == ["--list"]:
        for c in constants:
            print(f"{c.name:52} {c.kind:7} {c.own:24} {c.uses} uses")
            for place in c.fixed:
                print(f"    fixed: {place}")
        print(f"{len(constants)} constants")
        return 0
    runner = Runner(*build())
    kinds = Counter()
    print(f"{'constant':48} {'mutant':7} caught by", flush=True)
    for constant in constants:
        if wanted and constant.name not in wanted:
            continue
        for change in constant.changes:
            mutant = f"{constant.name} {change}"
            if constant.uses == 0 or is_no_change(constant.own, change):
                found, text = None, "(not switchable)"
            else:
                found, text = runner.caught(mutant), "nothing"
            reason = reasons.get(mutant)
            if found:
                kind, text = found
                if reason:
                    broken.append(f"{mutant}: its reason is stale, for it is caught by {text}")
            elif reason:
                kind, text = "explained", f"{text}: {reason}"
            else:
                kind = "missed"
                broken.append(f"{mutant}: nothing notices it, and no reason says why")
            kinds[kind] += 1
            print(f"{constant.name:48} {change:7} {text}", flush=True)
    print(
        f"\n{sum(kinds.values())} mutants: {kinds['test']} caught by tests, {kinds['world']} by the world, "
        f"{kinds['coverage']} because something is never reached, {kinds['explained']} explained, "
        f"{kinds['missed']} not"
    )
    for line in broken:
        print(f"constants: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
