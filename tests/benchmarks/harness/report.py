"""Writes docs/reference/benchmarks.md and its plots from the results: medians and ranges."""

import json
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# SVG text stays text, and equal figures give an identical file.
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "triad", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "figure.figsize": (7.5, 4)})
from matplotlib import pyplot  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
# A run is marked if other processes used more than this share of the machine.
QUIET = 0.1


class Results:
    def __init__(self, path):
        self.lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
        # Results belong to the machine description before them: one description is written at the start of each
        # session.
        machine = None
        for line in self.lines:
            machine = line if line["what"] == "machine" else machine
            line["sitting"] = machine
        if machine is None:
            sys.exit(f"benchmark: {path}: nothing was measured")
        compared = self.of("throughput") or self.lines
        self.machine = compared[-1]["sitting"]
        named = self.machine["settings"]
        self.systems = [name for name in named if any(line.get("system") == name for line in self.lines)]

    def of(self, what, system=None):
        return [line for line in self.lines
                if line["what"] == what and (system is None or line["system"] == system)]

    def of_last_sitting(self, what, system):
        lines = self.of(what, system)
        return [line for line in lines if line["sitting"] is lines[-1]["sitting"]]

    def elsewhere(self, *whats):
        """The machine and date of a result, if they differ from those of the other engines."""
        lines = [line for what in whats for line in self.of(what)]
        sitting = lines[-1]["sitting"] if lines else self.machine
        if sitting is self.machine:
            return ""
        return (f"\n\nMeasured in another sitting: {sitting['at'][:10]}, {sitting['cpus']} processors ({sitting['cpu']}), Triad at\n"
                f"{sitting['commit'].removeprefix('git:')}; {floor(sitting)}. {sitting.get('remark', '')}".rstrip())

    def title(self, system):
        return self.machine["settings"][system][0]


def at(line, path):
    for word in path.split("."):
        line = line[word]
    return line


def median(lines, path):
    return statistics.median(at(line, path) for line in lines)


def number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(lines, path):
    """The median, with the lowest and highest value if there are several."""
    if not lines:
        return "–"
    values = [at(line, path) for line in lines]
    shown = number(statistics.median(values))
    if len(values) > 1:
        shown += f" ({number(min(values))}–{number(max(values))})"
    return shown


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def compared(results, what, columns):
    """A table with a row for each system and a column for each figure."""
    rows = []
    for system in results.systems:
        lines = results.of(what, system)
        if lines:
            rows.append([results.title(system), *(cell(lines, path) for _, path in columns), str(len(lines))])
    return table(["", *(name for name, _ in columns), "runs"], rows)


def against(results):
    """Triad's medians divided by Restate's, where both were measured."""
    rows = []
    for name, what, path, aim in (
            ("orders a second, 64 in flight", "throughput", "per_second", "at least 3"),
            ("processor time a thousand orders", "throughput", "cpu_per_thousand", "at most 0.33"),
            ("peak memory, 64 in flight", "throughput", "peak_mb", ""),
            ("one alone, p50", "alone", "ms.p50", ""),
            ("one alone, p99", "alone", "ms.p99", "")):
        ours, theirs = results.of(what, "triad"), results.of(what, "restate")
        if ours and theirs:
            ratio = median(ours, path) / median(theirs, path)
            rows.append([name, cell(ours, path), cell(theirs, path), f"{ratio:.2f}", aim])
    return table(["", "Triad", "Restate", "ratio", "aim"], rows) if rows else ""


def save(name, title, x, y):
    pyplot.title(title)
    pyplot.xlabel(x)
    pyplot.ylabel(y)
    pyplot.grid(alpha=0.3)
    handles, labels = pyplot.gca().get_legend_handles_labels()
    if handles:
        pyplot.legend(handles, labels, frameon=False)
    pyplot.tight_layout()
    path = ROOT / "docs" / "benchmarks" / f"{name}.svg"
    pyplot.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close()
    # Matplotlib writes spaces at the ends of lines.
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
    return f"![{title}](../benchmarks/{name}.svg)"


def rates(results):
    """Plots against the rate of submission: the rate of completion, and the latency."""
    shown = []
    for name, title, path, unit in (
            ("throughput", "Orders that end, by orders that begin", "per_second", "orders/s that end"),
            ("latency", "Time to an order's end (p99), by orders that begin", "ms.p99", "ms"),
            ("cpu", "Processor time, by orders that begin", "cpu_per_thousand", "s a thousand orders")):
        for system in results.systems:
            lines = sorted(results.of("rates", system), key=lambda line: line["rate"])
            if lines:
                pyplot.plot([line["rate"] for line in lines], [at(line, path) for line in lines], marker="o",
                            label=results.title(system))
        if name == "latency":
            pyplot.yscale("log")
        shown.append(save(name, title, "orders/s that begin", unit))
    return shown


def percentiles(results):
    columns = [(f"{rate}/s", rate) for rate in sorted({line["rate"] for line in results.of("rates")})]
    rows = []
    for system in results.systems:
        by_rate = {line["rate"]: line["ms"] for line in results.of("rates", system)}
        if by_rate:
            rows.append([results.title(system), *(
                f"{number(by_rate[rate]['p50'])} / {number(by_rate[rate]['p99'])}" if rate in by_rate else "–"
                for _, rate in columns)])
    return table(["p50 / p99 in ms", *(name for name, _ in columns)], rows)


def memory(results):
    rows = []
    for system in results.systems:
        for line in results.of("memory", system)[-1:]:
            series = line["series"]
            pyplot.plot([one["ended"] / 1000 for one in series], [one["mb"] for one in series],
                        label=results.title(system))
            rows.append([results.title(system), f"{line['orders']:,}", number(line["per_second"]),
                         number(pace(series, 0, 0.1)), number(pace(series, 0.9, 1)),
                         number(max(one["mb"] for one in series)), number(series[-1]["disk_mb"]),
                         str(line["failed"]), str(line["later"])])
    if not rows:
        return ""
    plot = save("memory", "Memory over many orders", "thousand orders that have ended", "MB")
    head = ["", "orders", "orders/s", "first tenth", "last tenth", "peak MB", "disk MB at the end", "failed", "told to come later"]
    return table(head, rows) + "\n\n" + plot


def stored(results):
    full, empty = results.of_last_sitting("stored", "triad"), results.of_last_sitting("empty", "triad")
    if not full or not empty:
        return ""
    ratio = median(full, "per_second") / median(empty, "per_second")
    rows = [[f"{line[0]['stored']:,} stored" if "stored" in line[0] else "none stored", cell(line, "per_second"),
             cell(line, "cpu_per_thousand"), cell(line, "ms.p99"), cell(line, "peak_mb"),
             cell(line, "start_s") if "start_s" in line[0] else "–", str(len(line))] for line in (empty, full)]
    return (table(["", "orders/s", "CPU s a thousand orders", "p99 ms", "peak MB", "s to start after `kill -9`", "runs"], rows)
            + f"\n\nSpeed against an empty store: {ratio:.2f} (aim: at least 0.95).")


def traces(results):
    off, on = results.of_last_sitting("untraced", "triad"), results.of_last_sitting("traced", "triad")
    if not off or not on:
        return ""
    more = median(on, "cpu_per_thousand") / median(off, "cpu_per_thousand") - 1
    rows = [[name, cell(lines, "per_second"), cell(lines, "cpu_per_thousand"), cell(lines, "ms.p99"), str(len(lines))]
            for name, lines in (("off", off), ("one order in a hundred", on))]
    return (table(["traces", "orders/s", "CPU s a thousand orders", "p99 ms", "runs"], rows)
            + f"\n\nProcessor time beside none: {more:+.1%} (aim: at most 5% more).")


def pace(series, since, until):
    """Orders per second between two points of a run."""
    total = series[-1]["ended"]
    inside = [one for one in series if since * total <= one["ended"] <= until * total]
    if len(inside) < 2:
        return float("nan")
    return (inside[-1]["ended"] - inside[0]["ended"]) / (inside[-1]["s"] - inside[0]["s"])


def steady(results):
    lines = results.of("steady", "triad")[-1:]
    if not lines:
        return ""
    line, = lines
    series = line["series"]
    if len(series) < 4:
        return ""
    rows = []
    for name, path in (("processors", "cores"), ("memory, MB", "mb"), ("disk, MB", "disk_mb")):
        quarters = [series[len(series) * part // 4:len(series) * (part + 1) // 4] for part in range(4)]
        rows.append([name, *(number(statistics.mean(one[path] for one in quarter)) for quarter in quarters)])
    pyplot.plot([one["s"] / 60 for one in series], [one["mb"] for one in series], label="memory, MB")
    pyplot.plot([one["s"] / 60 for one in series], [one["disk_mb"] for one in series], label="disk, MB")
    plot = save("steady", "100 orders a second of five steps", "minutes", "MB")
    minutes = series[-1]["s"] / 60
    said = (f"{minutes:.0f} minutes, {line['orders']:,} orders, {line['failed']} failed; time to an order's end p50 "
            f"{number(line['ms']['p50'])} ms, p99 {number(line['ms']['p99'])} ms. Means of the quarters of the run:")
    return said + "\n\n" + table(["", "first", "second", "third", "fourth"], rows) + "\n\n" + plot


def recovery(results):
    found = compared(results, "recovery", [
        ("s until it goes on", "goes_on_s"), ("s until all are done", "all_done_s"), ("calls", "calls"),
        ("calls made again", "calls_again")])
    shown = [(results.title(s), median(results.of("recovery", s), "goes_on_s")) for s in results.systems
             if results.of("recovery", s)]
    if not shown:
        return ""
    pyplot.barh([name for name, _ in shown][::-1], [value for _, value in shown][::-1])
    return found + "\n\n" + save("recovery", "From kill -9 until new work is done", "s", "")


def page(results):
    of = results.machine
    measured = [line for line in results.lines if "others" in line and line["sitting"] is of]
    disturbed = sum(line["others"] > QUIET for line in measured)
    days = sorted({line["at"][:10] for line in results.lines if line["sitting"] is of})
    parts = [
        "# Benchmarks",
        "Made by `tests/benchmarks/compare.py`, which anyone can run again: it builds or installs every engine from its\n"
        "registry, waits for a quiet machine, lets the engines take turns, and writes this page and its plots. Every\n"
        "run is a line in [docs/benchmarks/results.jsonl](../benchmarks/results.jsonl).",
        "**The work.** An order of 500 bytes comes over HTTP and is answered at its end. It has three steps, one after\n"
        "the other; each is an HTTP call of 500 bytes to one service under an idempotency key, and its answer is\n"
        "durable before the next step begins. Load generator and service are the same for all, run on the same\n"
        "processors, and are not counted.",
        f"**The machine.** {of['cpus']} processors ({of['cpu']}), {of['memory_gb']:.0f} GB, Linux {of['kernel']};\n"
        f"{', '.join(days)}, Triad at {of['commit'].removeprefix('git:')}. It is a virtual machine that others use as well: of {len(measured)} runs\n"
        f"{disturbed} had more than {QUIET:.0%} of it taken by others. Medians are shown, with the lowest and the highest run.",
        "**The floor.** Below every engine: " + floor(of) + ".",
        "## Throughput\n\n64 orders in flight, each client with its next order when the last one has ended.\n\n"
        + compared(results, "throughput", [
            ("orders/s", "per_second"), ("CPU s a thousand orders", "cpu_per_thousand"), ("p50 ms", "ms.p50"),
            ("p99 ms", "ms.p99"), ("peak MB", "peak_mb")]),
        "## One order alone\n\n" + compared(results, "alone", [
            ("p50 ms", "ms.p50"), ("p99 ms", "ms.p99"), ("CPU s a thousand orders", "cpu_per_thousand")]),
    ]
    if ratio := against(results):
        parts.append("## Beside Restate\n\n" + ratio)
    if results.of("rates"):
        parts.append("## Load\n\nOrders begin at a steady rate, whatever becomes of them; a latency counts from when the "
                     "order should have\nbegun. A line ends where less than nine tenths of the rate came out.\n\n"
                     + "\n\n".join(rates(results)) + "\n\n" + percentiles(results))
    for head, text in (
            ("## `kill -9` in full load\n\nAll processes of an engine are killed when four orders of ten have ended, and "
             "started again at once. What\nwas accepted before is followed to its end; calls made again are those "
             "beyond the first under their key.", recovery(results)),
            ("## Memory over many orders" + results.elsewhere("memory"), memory(results)),
            ("## Many orders stored\n\n64 in flight; the process was killed and started again before each run, and runs on an "
             "empty store came between." + results.elsewhere("stored"), stored(results)),
            ("## The price of traces\n\n64 in flight, spans to a collector that takes them and does nothing."
             + results.elsewhere("traced"), traces(results)),
            ("## A steady rate\n\n`triad serve` with 100 orders a second of five steps; finished orders are kept ten "
             "minutes, and so is what is done in the log." + results.elsewhere("steady"), steady(results))):
        if text:
            parts.append(head + "\n\n" + text)
    failures = results.of("failed")
    if failures:
        parts.append("## Runs that failed\n\n" + "\n".join(
            f"- {results.title(line['system'])}: {line['why']}" for line in failures))
    parts.append("## Settings, and what is unfair to whom\n\n" + "\n".join(
        f"- **{results.title(system)}.** {' '.join(text for text in of['settings'][system][1:] if text)}"
        for system in results.systems) + "\n\n" + ABSENT)
    return "\n\n".join(parts) + "\n"


ABSENT = """Not there: **Resonate**, whose server is in none of crates.io, npm, PyPI and Debian (its SDKs are, and keep
nothing durable by themselves), and **obelisk** (0.38.3). Its workflows are WebAssembly components. It can run
JavaScript too, but it fetches the runtime for that from an OCI registry, docker.io, which is none of these. The
published crate cannot build that runtime either: the features for it (`workflow-js-local` and two others) need
crates that are not published. Components can be made without it, with componentize-js from npm: a workflow of three
steps and their HTTP calls were made so, each with a JavaScript engine of 12 MB in it. The server was not built, so
they were not run.

DBOS, apalis, durare and duroxide are given fewer orders a run, because they take longer for them."""


def floor(of):
    return (f"{of['syncs_per_second']:,.0f} syncs of 4 KB a second, one after the other; "
            f"{of['calls_per_second']:,.0f} HTTP calls a second over the loopback with 64 at once, "
            f"{of['client_cpu_ms_per_thousand_calls']:.0f} ms of the client's processor time a thousand; "
            f"one call alone {of['one_call_alone_ms']:.2f} ms")


def main():
    results = Results(sys.argv[1])
    text = page(results)
    (ROOT / "docs" / "reference" / "benchmarks.md").write_text(text)
    print(f"docs/reference/benchmarks.md: {len(results.lines)} runs")


if __name__ == "__main__":
    main()
