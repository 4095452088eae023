"""Compares the figures of the bill with what they are taken from.

Usage: cost_figures.py DOCUMENT.md
       cost_figures.py --plan PLAN.json

Every block of the document that begins with a line `$ python3 …` is run from the top of the repository, and must show what the
command prints. With --plan the numbers of functions, mappings and so on that infra/cost.py has built in must be those of the
plan, which is that of infra/examples/complete. No block, or a difference, ends with 1.
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```text\n\$ (python3 [^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed(command: str) -> str:
    arguments = [sys.executable, *shlex.split(command)[1:]]
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def document(path: str) -> int:
    blocks = BLOCK.findall(pathlib.Path(path).read_text())
    wrong = 0
    for command, shown in blocks:
        if printed(command) != shown:
            wrong += 1
            print(f"{path}: `{command}` prints\n{printed(command)}and the document shows\n{shown}")
    print(f"  {len(blocks)} blocks, {wrong} wrong")
    return 1 if wrong or not blocks else 0


def plan(path: str) -> int:
    built_in = json.loads(printed("python3 infra/cost.py --counts"))
    counted = json.loads(printed(f"python3 infra/cost.py --counts --plan {shlex.quote(path)}"))
    for name in built_in:
        if built_in[name] != counted[name]:
            print(f"infra/cost.py: EXAMPLE has {built_in[name]} {name}, the plan of the example {counted[name]}")
    print(f"  {len(built_in)} counts of the example: {counted}")
    return 1 if built_in != counted or not counted["functions"] else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--plan", path]:
            sys.exit(plan(path))
        case [path]:
            sys.exit(document(path))
        case _:
            sys.exit(__doc__)
