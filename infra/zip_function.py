"""Zips a function's binary for Lambda: zip_function.py BINARY ZIP

The binary is `bootstrap` in the zip. Compressed with Zopfli, whose output any inflater reads.
"""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED

from zopfli import ZipFile, ZipInfo

# The same binary makes the same zip.
WRITTEN = (1980, 1, 1, 0, 0, 0)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    entry = ZipInfo("bootstrap", WRITTEN)
    entry.compress_type = ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = 0o100755 << 16
    with ZipFile(sys.argv[2], "w", ZIP_DEFLATED, iterations=3) as out:
        out.writestr(entry, Path(sys.argv[1]).read_bytes())


main()
