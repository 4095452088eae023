"""Computes the figures of the pages again, and compares them: tests/figures.sh."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"([0-9][0-9,.]*[0-9]|[0-9])"
SIM = "cargo run --release --quiet --locked -p triad-sim --"
MODEL = "cargo run --release --quiet --locked -p triad-model --"
BENCH = "cargo run --release --quiet --locked -p triad --features bench -- bench"
LONG = "cargo test --locked -p triad-tests --features long --test long"


class Figure:
    """A figure in a page, and the command that computes it.

    `says` has, for each number in the page, the text around it, with # for the number; any white space matches
    any other. `shows` has the same for the command's output. Numbers with a tolerance are times or rates, and
    may differ by that fraction.
    """

    def __init__(self, name, page, command, says, shows, tolerance=None, is_cheap=False):
        self.name, self.page, self.command = name, page, command
        self.says, self.shows = says, shows
        self.tolerance, self.is_cheap = tolerance, is_cheap
        assert says.keys() == shows.keys(), name


def patches(*globs):
    """The command that counts the patches of these patterns, without running them."""
    return "ls " + " ".join(f"tests/testkit/mutants/{g}" for g in globs) + " | wc -l"


def counted(name, says, command):
    return Figure(name, "docs/reference/figures.md", command, {name: says}, {name: "#"}, is_cheap=True)


# Cells of the table of faults, with the names under which the simulated world counts them.
FAULTS = {
    "throttled": "fault: store throttled",
    "transaction conflict": "fault: transaction conflict",
    "write lost its answer": "fault: write lost its answer",
    "write retried by the client": "fault: write retried by the client",
    "write landed late": "fault: write landed late",
    "read a moment old": "fault: read a moment old",
    "index row missing": "fault: index row missing",
    "index page empty": "fault: index page empty",
    "index late": "fault: index late",
    "expired record deleted": "fault: expired record deleted",
    "send failed": "fault: send failed",
    "send not acknowledged": "fault: send not acknowledged",
    "send landed late": "fault: send landed late",
    "publish never answered": "fault: publish hung",
    "message stored twice": "fault: message stored twice",
    "offset commit lost": "fault: offset commit lost",
    "partition moved": "fault: partition moved from a live instance",
    "sink down": "fault: sink down",
    "topic refused": "fault: topic refused",
    "reply of an earlier version": "fault: reply of an earlier version",
    "died before an effect": "fault: died before an effect",
    "died after an effect": "fault: died after an effect",
    "killed": "fault: killed",
    "frozen for seconds": "fault: frozen for seconds",
    "frozen for minutes": "fault: frozen for minutes",
    "call of a port stalled": "fault: port call stalled",
    "producer lost": "fault: producer lost",
    "answer lost": "fault: remote lost its answer",
    "answered garbage": "fault: remote answered garbage",
    "call landed late": "fault: remote call landed late",
    "not reached": "fault: remote not reached",
    "compensation declined": "fault: compensation declined",
}
# Each model: name of the figure, row of the table, policy, Schedulers, horizon, crashes.
MODELS = [
    ("model-error-1", "| retried, then Error | 1, 1 |", "retry", 1, 28, 1),
    ("model-error-2", "| retried, then Error | 2, 2 |", "retry", 2, 18, 0),
    ("model-error-deaths", "| retried, then Error | 2, 2 |", "retry", 2, 13, 1),
    ("model-compensated-1", "| compensated | 1, 1 |", "compensate", 1, 28, 1),
    ("model-compensated-2", "| compensated | 2, 2 |", "compensate", 2, 18, 0),
    ("model-compensated-deaths", "| compensated | 2, 2 |", "compensate", 2, 13, 1),
]

FIGURES = [
    Figure(
        "simulated-world", "docs/reference/figures.md", f"{SIM} seeds --threads 2",
        {"failed": "among them: # failed", "orders": "failed; # orders", "effects": "orders, # effects",
         "hours": "effects, # hours", "faults": "virtual time, # faults",
         "compensated": "faults; # orders missed", "late": "compensated, # were late",
         **{f"| {cell}": f"| {cell} | # |" for cell in FAULTS}},
        {"failed": "virtual hours, # failed", "orders": "seeds, # orders", "effects": "faults, # effects",
         "hours": "effects, # virtual hours", "faults": "orders, # faults",
         "compensated": "# deadline: missed, compensated",
         "late": "# deadline: missed past the point of no return",
         **{f"| {cell}": f"# {counted_as}" for cell, counted_as in FAULTS.items()}},
    ),
    Figure(
        "crash-points", "docs/reference/figures.md",
        f"{SIM} crashes | awk '{{singles += $4; pairs += $7; failed += $12}} "
        "END {print singles, \"singles\", pairs, \"pairs\", failed, \"failed\"}'",
        {"singles": "(`triad-sim crashes`): # single", "pairs": "ones and # pairs", "failed": "workloads, # failed"},
        {"singles": "# singles", "pairs": "# pairs", "failed": "# failed"}, is_cheap=True,
    ),
    Figure("speed", "docs/reference/figures.md", f"{SIM} speed", {"orders/s": "`triad-sim speed`: #"},
           {"orders/s": "s, # orders/s"}, tolerance=0.5),
    counted("mutants", "(`tests/mutants.sh`): # of", patches("patches/*.patch")),
    counted("mutants-of-the-model", "hundred seeds; # of", "grep -l '^Model: ' tests/testkit/mutants/patches/*.patch | wc -l"),
    counted("mutants-around", "(`tests/mutants.sh --adapters`): # of", patches("adapters/*.patch", "infra/*.patch")),
    *[
        Figure(name, "docs/reference/figures.md",
               f"{MODEL} --policy {policy} --instances {instances} --horizon {horizon} --crashes {n} --threads 2",
               {"states": f"{row} {horizon} ms | {n}, 1, 1 | # |", "transitions": f"{row} {horizon} ms | {n}, 1, 1 | {{}} | # |"},
               {"states": "# states", "transitions": "# transitions"})
        for name, row, policy, instances, horizon, n in MODELS
    ],
    Figure("constants", "docs/reference/figures.md",
           "tests/constants.sh && tests/constants.sh --list | tail -1 | sed 's/constants$/constants in all/'",
           {"mutants": "(`tests/constants.sh`): # mutants", "constants": "mutants of # constants",
            "tests": "constants: # caught", "explained": "world; # are explained"},
           {"mutants": "# mutants: ", "constants": "# constants in all", "tests": "mutants: # caught by tests",
            "explained": "never reached, # explained"}),
    Figure("bad-input", "docs/reference/figures.md", f"TRIAD_BAD_RECORDS=50000 {LONG} bad_input:: -- --nocapture --test-threads 1",
           {"unfit": "(`TRIAD_BAD_RECORDS=50000`): # unfit"}, {"unfit": "# unfit"}),
    Figure("bench", "docs/reference/speed.md", f"{BENCH} --orders 3000",
           {"64 in flight": "| memory, 64 in flight | # |", "no limit": "| memory, no limit | # |"},
           {"64 in flight": "memory, 64 in flight #", "no limit": "memory, no limit #"}, tolerance=0.5),
]


# Figures that are not compared: name, page, command, and the reason.
NOT_COMPARED = [
    ("chaos", "docs/reference/figures.md", "triad-chaos --orders 20000",
     "its faults come at moments of the clock, and every count follows from them; each breach fails the run"),
    ("chaos-judged", "docs/reference/figures.md", "triad-chaos --orders 300 --seed 23", "as chaos"),
    ("outages", "docs/reference/figures.md", "triad-chaos --outages 5s --orders 240", "times; what is late fails the run"),
    ("power", "docs/reference/figures.md", "tests/proof.sh --long power",
     "which pages are lost depends on when its deaths come; what is lost for good or done twice fails the run"),
    ("million", "docs/reference/figures.md", "triad-sim nightly --seeds 1000000", "of one version, and hours; each failed seed is in the page"),
    ("fuzzers", "docs/reference/figures.md", "tests/proof.sh --long", "how much a fuzzer does in a time is the machine's"),
    ("overload", "docs/reference/speed.md", f"{BENCH} --overload", "rates beside others on one machine; read them in one sitting"),
    ("high-lane", "docs/reference/speed.md", f"{BENCH} --priority --orders 5000", "as overload"),
    ("write-units", "docs/reference/speed.md", f"{LONG} cost::", "the test has the numbers itself, and fails where they differ"),
]


def pattern(around):
    """The regular expression for a number and the text around it."""
    words = [re.escape(part) for part in re.split(r"(?:\s+)", around)]
    text = r"\s+".join(words).replace(r"\#", NUMBER).replace("#", NUMBER)
    return re.compile(text.replace(r"\{\}", "[0-9,.]+"))


def number(text):
    return float(text.replace(",", ""))


def found(patterns, text):
    """The number that each pattern finds, or None."""
    at = {what: pattern(around).search(text) for what, around in patterns.items()}
    return {what: number(match[1]) if match else None for what, match in at.items()}


def behind_mark(figure):
    """The text of the page from the figure's mark to the next heading."""
    page = (ROOT / figure.page).read_text()
    mark = f"<!-- figure: {figure.name} -->"
    if page.count(mark) != 1:
        sys.exit(f"figures: {figure.page} has the mark {mark} {page.count(mark)} times")
    text = page.split(mark)[1]
    return re.sub(r"<!--.*?-->", "", text.split("\n## ")[0])


def differs(figure, says, now):
    if says is None or now is None:
        return True
    if figure.tolerance is None:
        return says != now
    return abs(now - says) > figure.tolerance * says


def shown(value):
    return "not there" if value is None else f"{value:,.10g}"


def main(words):
    flags = [w for w in words if w.startswith("-")]
    names = [w for w in words if not w.startswith("-")]
    if set(flags) - {"--all", "--list"} or set(names) - {f.name for f in FIGURES}:
        sys.exit(f"figures: --all, --list, or some of: {', '.join(f.name for f in FIGURES)}")
    if "--list" in flags:
        for figure in FIGURES:
            print(f"{figure.name}\t{figure.page}\t{figure.command}")
        for name, page, command, why in NOT_COMPARED:
            print(f"{name}\t{page}\t{command}\tnot compared: {why}")
        return 0
    chosen = [f for f in FIGURES if f.name in names or not names and (f.is_cheap or "--all" in flags)]
    print(f"{'figure':28} {'what':28} {'page':>14} {'now':>14}")
    different = failed = 0
    for figure in chosen:
        says = found(figure.says, behind_mark(figure))
        told = subprocess.run(["bash", "-o", "pipefail", "-c", figure.command], cwd=ROOT, check=False,
                              stdout=subprocess.PIPE, text=True)
        now = found(figure.shows, told.stdout)
        if told.returncode != 0:
            print(f"{figure.name:28} ends with {told.returncode}: {figure.command}")
            different += 1
            failed += figure.is_cheap
        for what in figure.says:
            is_off = differs(figure, says[what], now[what])
            different += is_off
            failed += is_off and figure.is_cheap
            within = "" if figure.tolerance is None else f" (within {figure.tolerance:.0%})"
            mark = "  DIFFERS" if is_off else ""
            print(f"{figure.name:28} {what:28} {shown(says[what]):>14} {shown(now[what]):>14}{within}{mark}",
                  flush=True)
    print(f"\n{len(chosen)} figures, {different} differences")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
