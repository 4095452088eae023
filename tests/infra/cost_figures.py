"""Compares the figures in a document with the output of the commands that it names for them.

Usage: cost_figures.py DOCUMENT.md. Every block that begins with a line `$ python3 …` is run from the
top of the repository, and must show what the command prints. No such block, or another output,
ends with 1.
"""

import pathlib
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```text\n\$ (python3 [^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    document = pathlib.Path(sys.argv[1])
    blocks = BLOCK.findall(document.read_text())
    wrong = 0
    for command, shown in blocks:
        arguments = [sys.executable, *shlex.split(command)[1:]]
        printed = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        if printed != shown:
            wrong += 1
            print(f"{document}: `{command}` prints\n{printed}and the document shows\n{shown}")
    print(f"  {len(blocks)} blocks, {wrong} wrong")
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
