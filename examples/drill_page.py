"""Holds a run of the drill against the page that shows one.

Usage: drill_page.py RUN.md PAGE.md. Two runs differ in ids, times and the order of what happens side by
side, and in how much waits where at the moment of a look; in nothing else. Any other difference is
printed and ends with 1.
"""

import difflib
import pathlib
import re
import sys

RULES = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    # Spans, of one unit or two: 316ms, 1s 600ms, 0s.
    (re.compile(r"\b\d+(ms|s|m)( \d+(ms|s))?(?![\w-])"), "SPAN"),
    # Dead letters: topic, partition, offset.
    (re.compile(r"\borders/\d+/\d+\b"), "LETTER"),
    # Orders, whose numbers the drill gives in fours.
    (re.compile(r"\b1[0-3]\d\d\b"), "ORDER"),
    # A service that is down may be tried again at the moment of the look.
    (re.compile(r"\bpayment +(down|tried again)\b"), "payment DOWN"),
    (re.compile(r"[ \t]+"), " "),
    # By the moment of the look a probe may have failed.
    (re.compile(r"\bis down: .*$"), "is down: WHY"),
    # Its attempt was the first one to meet the fault, or met an open breaker; by the moment of the look it
    # has been deferred once or more often.
    (re.compile(r"\bcharge-payment deferred \d+ \d+ 0\b"), "charge-payment deferred N CALLS 0"),
    (re.compile(r"\bcharge-payment waits: payment is down; attempt \d+\b"), "charge-payment waits: payment is down; attempt N"),
    (re.compile(r"\bcharge-payment: attempts? 1( to \d+)? deferred:"), "charge-payment: attempts 1 to N deferred:"),
    (re.compile(r"^\d+ orders? deferred at\b"), "N orders deferred at"),
    # It runs beside the step that is declined: its own call may have been counted by then, or not.
    (re.compile(r"\bpack compensated 1 [12] 0$"), "pack compensated 1 CALLS 0"),
]
# How many attempts an order has had that is deferred: as above.
ATTEMPTS = re.compile(r"^Attempts +\d+(?=\nHeld by .*\nNext .* waits: )", re.MULTILINE)
# A row of the table of what waits, which is there or not by the moment of the look.
WAITING = re.compile(r"^ ?\S+( \S+)? (normal|high) \d+ SPAN \d+ \d+ SPAN ")
# The same: it has been answered when the order turns to compensation, or is waited for no longer.
ANSWERED = re.compile(r"^ TIME pack: (completed|attempt 1 is waited for no longer)$")
# What happens side by side: acts on several orders, and the two steps that wait for nothing of each other.
ASIDE = re.compile(r"^ORDER (would be )?(resubmitted|set to compensate again|closed): |^ TIME (pack|book-carrier): completed$")


def normal(text: str) -> list[str]:
    """The lines without what differs; neighbours that happen side by side are sorted."""
    lines, aside = [], []
    text = ATTEMPTS.sub("Attempts N", text)
    for line in [*text.splitlines(), ""]:
        for pattern, name in RULES:
            line = pattern.sub(name, line)
        if ASIDE.match(line) and not ANSWERED.match(line):
            aside.append(line)
        elif not WAITING.match(line) and not ANSWERED.match(line):
            lines += [*sorted(aside), line]
            aside = []
    return lines


def main() -> int:
    run, page = (pathlib.Path(name).read_text() for name in sys.argv[1:])
    run, page = normal(run), normal(page)
    if len(run) < 100 or sum(line.startswith("$ triad ") for line in run) < 10:
        print("drill_page: the run shows next to nothing")
        return 1
    differences = list(difflib.unified_diff(page, run, *reversed(sys.argv[1:]), lineterm="", n=1))
    print("\n".join(differences) if differences else f"  {len(run)} lines, as the page shows them")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
