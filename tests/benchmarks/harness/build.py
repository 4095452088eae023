"""Builds or installs each measured system from its registry."""

import os
import subprocess
import sys
from pathlib import Path

from . import machine

ROOT = Path(__file__).resolve().parents[3]
PEERS = ROOT / "tests" / "benchmarks" / "peers"
# Directory of everything that a run builds, installs or writes.
PLACE = ROOT / "target" / "benchmarks"
RESTATE = PLACE / "restate"
VENV = PLACE / "venv"


def run(command, **further):
    print("+", " ".join(str(word) for word in command), flush=True)
    done = subprocess.run([str(word) for word in command], **further)
    if done.returncode != 0:
        machine.fail(f"{command[0]} ended with {done.returncode}")


def cargo(directory, target, *arguments, profile="release"):
    machine.tool("cargo", "rustup, from https://rustup.rs")
    run(["cargo", "build", "--profile", profile, "--locked", "--target-dir", target, *arguments], cwd=directory)
    return Path(target) / profile


def triad():
    """Builds Triad as docs/one-machine.md does for production."""
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return cargo(ROOT, target, "-p", "triad", "--features", "traces", profile="dist") / "triad"


def tools():
    """Builds the load generator and the service."""
    return cargo(ROOT / "tests" / "benchmarks" / "load", PLACE / "cargo")


def peer(name):
    """Builds a peer that is written in Rust."""
    return cargo(PEERS, PLACE / "cargo", "-p", name) / name


def restate():
    """Installs Restate's server from npm."""
    machine.tool("npm", "npm")
    RESTATE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        (RESTATE / name).write_text((PEERS / "restate-server" / name).read_text())
    run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=RESTATE)
    found = sorted(RESTATE.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not found:
        machine.fail("npm has no server of Restate for this machine")
    return found[0]


def python():
    """Creates a Python environment with the packages of the report."""
    interpreter = VENV / "bin" / "python"
    if not interpreter.exists():
        run([sys.executable, "-m", "venv", VENV])
    run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "-r", ROOT / "tests" / "benchmarks" / "harness" / "requirements.txt"])
    return interpreter
