"""Zips a function's binary for Lambda: zip_function.py BINARY ZIP

The binary is `bootstrap` in the zip. Its tables for unwinding are blanked: a panic aborts, nothing
unwinds, and they are the twentieth part of the zip. (The compiler leaves them in although it is told
not to make them: with link-time optimisation one function that has them gives them to all.)
Compressed with Zopfli, whose output any inflater reads.
"""

import struct
import sys
from zipfile import ZIP_DEFLATED

from zopfli import ZipFile, ZipInfo

BLANKED = {b".eh_frame", b".eh_frame_hdr"}
# The same binary makes the same zip.
WRITTEN = (1980, 1, 1, 0, 0, 0)


def sections(elf: bytes):
    """Name, offset and size of each section of a little-endian ELF64 file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        sys.exit("zip_function: not a little-endian ELF64 file")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]
    texts = headers[names][4]
    for header in headers:
        start = texts + header[0]
        yield elf[start : elf.index(b"\0", start)], header[4], header[5]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        elf = bytearray(file.read())
    for name, offset, size in list(sections(bytes(elf))):
        if name in BLANKED:
            elf[offset : offset + size] = bytes(size)
    entry = ZipInfo("bootstrap", WRITTEN)
    entry.compress_type = ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = 0o100755 << 16
    with ZipFile(sys.argv[2], "w", ZIP_DEFLATED, iterations=3) as out:
        out.writestr(entry, bytes(elf))


main()
