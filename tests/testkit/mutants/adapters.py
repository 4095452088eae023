"""Runs, for each mutant outside of the rules, the tests that must notice it: tests/mutants.sh --adapters.

The mutants of tests/testkit/mutants/adapters are all in a scratch copy, which is built once, and are switched on
one at a time. Those of tests/testkit/mutants/infra have nothing to be switched by: each is applied to a copy
of infra/ by itself. Where the module's own tests are not to notice it but those in Rust, what it makes of the
roles is rendered into the scratch copy, and taken back.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COPY = ROOT / "target" / "mutants"
BUILT = ROOT / "target" / "mutants-built"
HERE = ROOT / "tests" / "testkit" / "mutants"
BUILD = ["--workspace", "--all-features", "--locked"]
# The result and name of a test, in a line such as `FAIL [   0.012s] (1/2) triad-tests::all bus::lanes::a_name`.
ENDED = re.compile(r"^\s*(?:TRY \d+ )?([A-Z][A-Z0-9+-]*)\s+\[[^\]]*\]\s+(?:\([^)]*\)\s+)?(\S+)\s+(\S.*)$")
# The text of a failed assertion in Terraform's tests; any other error does not prove that a mutant was noticed.
ASSERTION = "Error: Test assertion failed"


class Mutant:
    """A patch, and the tests that must notice it."""

    def __init__(self, path):
        self.path = path
        self.name = path.stem.split("-", 1)[1]
        lines = path.read_text().splitlines()
        self.filter = next((l.removeprefix("Caught by: ") for l in lines if l.startswith("Caught by: ")), None)
        if not lines or not lines[0].strip() or self.filter is None:
            sys.exit(f"mutants: {path} does not say in its first line what goes wrong, or not what catches it")

    @property
    def is_the_modules(self):
        """Whether a test of the Terraform module must notice the mutant."""
        return self.filter.endswith(".tftest.hcl")


def mutants(folder):
    return [Mutant(path) for path in sorted((HERE / folder).glob("*.patch"))]


def take_over():
    """Dependencies that the tests' own build has made need not be made again: only the crates of the
    copy are others than those of the work tree."""
    ready, own = ROOT / "target" / "debug", BUILT / "debug"
    if own.exists() or not ready.exists():
        return
    for part in ("deps", "build", ".fingerprint"):
        if (ready / part).exists():
            shutil.copytree(ready / part, own / part, copy_function=os.link)


class Tests:
    """The compiled tests of the scratch copy."""

    def __init__(self):
        take_over()
        has_openssl = subprocess.run(["pkg-config", "--exists", "openssl"], check=False).returncode == 0
        env = {**os.environ, **({"OPENSSL_NO_VENDOR": "1"} if has_openssl else {})}
        # Without clippy: a mutant need not pass the lints.
        env.pop("RUSTC_WORKSPACE_WRAPPER", None)
        target = ["--target-dir", str(BUILT)]
        cargo = lambda *words: subprocess.run(["cargo", *words], cwd=COPY, env=env, check=True,
                                              stdout=subprocess.PIPE, text=True).stdout
        cargo("build", "--lib", "--bins", *BUILD, *target)
        cargo("nextest", "run", "--no-run", *BUILD, *target)
        self.binaries = BUILT / "binaries.json"
        self.binaries.write_text(
            cargo("nextest", "list", "--list-type", "binaries-only", "--message-format", "json", *BUILD, *target))
        self.metadata = BUILT / "metadata.json"
        self.metadata.write_text(cargo("metadata", "--format-version", "1", "--locked"))

    def run(self, filter_, mutant=None):
        """Runs the tests of a filter; returns the result of each by its name, and the output."""
        env = {name: value for name, value in os.environ.items() if name != "TRIAD_MUTANT"}
        if mutant:
            env["TRIAD_MUTANT"] = mutant
        told = subprocess.run(
            ["cargo", "nextest", "run", "--binaries-metadata", str(self.binaries),
             "--cargo-metadata", str(self.metadata), "--config-file", str(HERE / "nextest.toml"),
             "--no-fail-fast", "--color", "never", "--status-level", "pass", "--final-status-level", "none",
             "--failure-output", "immediate", "--no-input-handler", "--show-progress", "none", "-E", filter_],
            cwd=COPY, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        # Exit code 100 means that tests have failed; any code other than 0 and 100 is an error of the run.
        if told.returncode not in (0, 100):
            sys.exit(f"mutants: the tests {filter_} could not be run:\n{told.stdout[-4000:]}")
        ended = {}
        for line in told.stdout.splitlines():
            found = ENDED.match(line)
            if found and found[1] not in ("SLOW", "SKIP", "START"):
                ended[found[3]] = found[1]
        if not ended:
            sys.exit(f"mutants: {filter_} is no test:\n{told.stdout[-4000:]}")
        return ended, told.stdout


@functools.cache
def built():
    """The tests, which are compiled at the first use."""
    return Tests()


def sound(filters):
    """Ends the run if one of these tests fails without a mutant."""
    ended, told = built().run(" | ".join(sorted({f"({each})" for each in filters})))
    bad = [name for name, how in ended.items() if not is_passed(how)]
    if bad:
        sys.exit(f"mutants: without a mutant these fail: {', '.join(bad)}\n{told[-8000:]}")


def noticed(mutant, ended):
    """Whether each of the tests has failed; prints their results."""
    quiet = [name for name, how in ended.items() if is_passed(how)]
    said = f"NOT CAUGHT by {', '.join(quiet)}" if quiet else ", ".join(ended)
    print(f"{mutant.name:52} {said}", flush=True)
    return not quiet


def is_passed(how):
    return how in ("PASS", "LEAK")


def of_tests(wanted):
    """Runs the mutants that Rust tests must catch; returns those that were not caught."""
    chosen = [m for m in mutants("adapters") if not wanted or m.name in wanted]
    if not chosen:
        return [], 0
    sound(m.filter for m in chosen)
    missed = []
    for mutant in chosen:
        ended, _ = built().run(mutant.filter, mutant.name)
        if not noticed(mutant, ended):
            missed.append(mutant.name)
    return missed, len(chosen)


def of_infra(wanted):
    """Runs the mutants of the Terraform module; returns those that were not caught."""
    chosen = [m for m in mutants("infra") if not wanted or m.name in wanted]
    if not chosen:
        return [], 0
    if shutil.which("terraform") is None:
        print("SKIPPED: terraform is missing: the mutants of infra/ are not tried", file=sys.stderr)
        return [], 0
    missed = []
    with tempfile.TemporaryDirectory() as work:
        env = {**os.environ, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1",
               "TF_DATA_DIR": f"{work}/data"}
        providers = f'. "{ROOT}/tests/infra/providers.sh"; providers "{work}"; printf %s "${{TF_CLI_CONFIG_FILE:-}}"'
        config = subprocess.run(["bash", "-c", providers], check=True, stdout=subprocess.PIPE, text=True).stdout
        if config:
            env["TF_CLI_CONFIG_FILE"] = config

        def check(copy, filter_):
            words = ["terraform", f"-chdir={copy}", "test", "-no-color", f"-filter=tests/{filter_}"]
            told = subprocess.run(words, env=env, check=False, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            return told.returncode, told.stdout

        def copy_of(name):
            copy = Path(work) / name / "infra"
            shutil.copytree(ROOT / "infra", copy, ignore=shutil.ignore_patterns(".terraform"))
            return copy

        def noticed_as_rendered(mutant, copy):
            place = COPY / "infra" / "tests" / "permissions.json"
            before = place.read_bytes()
            script = [ROOT / "tests" / "infra" / "render.sh", copy]
            place.write_bytes(subprocess.run(script, check=True, stdout=subprocess.PIPE,
                                             stderr=subprocess.DEVNULL).stdout)
            try:
                ended, _ = built().run(mutant.filter)
            finally:
                place.write_bytes(before)
            return noticed(mutant, ended)

        unchanged = copy_of("unchanged")
        made = subprocess.run(["terraform", f"-chdir={unchanged}", "init", "-backend=false", "-no-color"], env=env,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            print(f"{made.stdout}\nSKIPPED: Terraform's providers cannot be had", file=sys.stderr)
            return [], 0
        for filter_ in sorted({m.filter for m in chosen if m.is_the_modules}):
            code, told = check(unchanged, filter_)
            if code != 0:
                sys.exit(f"mutants: {filter_} fails without a mutant:\n{told[-8000:]}")
        rendered = [m.filter for m in chosen if not m.is_the_modules]
        if rendered:
            sound(rendered)
        for mutant in chosen:
            copy = copy_of(mutant.name)
            shutil.copy2(unchanged / ".terraform.lock.hcl", copy)
            applied = subprocess.run(["git", "apply", str(mutant.path)], cwd=copy.parent, check=False,
                                     env={**os.environ, "GIT_CEILING_DIRECTORIES": work})
            if applied.returncode != 0:
                sys.exit(f"mutants: {mutant.path} does not apply any more: bring it up to date (docs/CONTRIBUTING.md)")
            if not mutant.is_the_modules:
                if not noticed_as_rendered(mutant, copy):
                    missed.append(mutant.name)
                continue
            code, told = check(copy, mutant.filter)
            is_caught = code != 0 and ASSERTION in told
            if not is_caught:
                missed.append(mutant.name)
            print(f"{mutant.name:52} {mutant.filter if is_caught else f'NOT CAUGHT by {mutant.filter}'}", flush=True)
    return missed, len(chosen)


def main(wanted):
    known = {m.name for folder in ("adapters", "infra") for m in mutants(folder)}
    if set(wanted) - known:
        sys.exit(f"mutants: there is no {', '.join(sorted(set(wanted) - known))}")
    if subprocess.run(["cargo", "nextest", "--version"], check=False, capture_output=True).returncode != 0:
        print("mutants: cargo-nextest is missing; install it first", file=sys.stderr)
        return 2
    print(f"{'mutant':52} caught by", flush=True)
    (missed, tried), (more, others) = of_tests(wanted), of_infra(wanted)
    missed += more
    print(f"\n{tried + others - len(missed)} caught, {len(missed)} not")
    return 1 if missed or tried + others == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
