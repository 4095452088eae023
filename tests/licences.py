#!/usr/bin/env python3
"""Checks every crate of the workspace: its licence, its source, and the version of a C library in it.

    tests/licences.py

Works offline: `cargo metadata` lists the crates of Cargo.lock, and .cargo/deny.toml the allowed licences. Licence texts
and advisories are checked by tests/supply.sh, if cargo-deny is installed. Exit code 0 if there is no fault.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
# C libraries inside crates: where their version stands (a file, or a pattern for the crate's version), the lowest
# allowed version, and the reason. A crate with `links` that is missing here is an error, so that each new C library
# is reviewed.
BUNDLED = {
    "libsqlite3-sys": (("sqlite3/sqlite3.h", r'#define SQLITE_VERSION +"([\d.]+)"'), "3.51.3",
                       "before it two connections that write at once may corrupt the file (sqlite.org/wal.html, WAL-reset bug)"),
    "rdkafka-sys": ((None, r"\+([\d.]+)$"), "2.12.0", "what the tests of the loops were written against"),
    "zstd-sys": ((None, r"\+zstd\.([\d.]+)$"), "1.5.6", "corruption fixes of 1.5.5 and 1.5.6"),
    "libz-sys": (("src/zlib/zlib.h", r'#define ZLIB_VERSION "([\d.]+)'), "1.3.1", "CVE-2023-45853"),
    "libmimalloc-sys": None,
    "openssl-sys": None,
    "ring": None,
}


def allowed(expression: str, licences: set[str]) -> bool:
    """Whether an SPDX expression can be satisfied with these licences; `/` is an old form of OR.

    >>> of = {"MIT", "ISC", "Apache-2.0 WITH LLVM-exception"}
    >>> [allowed(text, of) for text in ("MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "Apache-2.0 WITH LLVM-exception")]
    [True, True, True, True]
    >>> [allowed(text, of) for text in ("GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR ISC) AND GPL-3.0")]
    [False, False, False, False]
    """
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    at = 0

    def any_of() -> bool:
        nonlocal at
        holds = all_of()
        while at < len(tokens) and tokens[at] == "OR":
            at += 1
            holds = all_of() or holds
        return holds

    def all_of() -> bool:
        nonlocal at
        holds = one()
        while at < len(tokens) and tokens[at] == "AND":
            at += 1
            holds = one() and holds
        return holds

    def one() -> bool:
        nonlocal at
        if tokens[at] == "(":
            at += 1
            holds = any_of()
            at += 1
            return holds
        name = tokens[at]
        at += 1
        if at < len(tokens) and tokens[at] == "WITH":
            name = f"{name} WITH {tokens[at + 1]}"
            at += 2
        return name in licences

    return any_of()


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def faults(package: dict, licences: set[str]) -> list[str]:
    """The faults of a crate, as messages.

    >>> crate = {"name": "rdkafka-sys", "version": "4.0.0+2.11.9", "source": CRATES_IO, "license": "MIT", "links": "rdkafka"}
    >>> [len(faults(crate | change, {"MIT"})) for change in ({}, {"version": "4.0.0+2.12.0"}, {"license": None}, {"source": "git"})]
    [1, 0, 2, 2]
    >>> faults(crate | {"name": "new-sys", "links": "new"}, {"MIT"})
    ['new-sys 4.0.0+2.11.9 has a C library (new): add it to BUNDLED with its lowest version']
    """
    name = f"{package['name']} {package['version']}"
    found = []
    if package["source"] not in (None, CRATES_IO):
        found.append(f"{name} comes from {package['source']}, not from crates.io")
    if not package["license"] or not allowed(package["license"], licences):
        found.append(f"{name} has the licence {package['license']}, which .cargo/deny.toml does not allow")
    if package["links"] and package["name"] not in BUNDLED:
        found.append(f"{name} has a C library ({package['links']}): add it to BUNDLED with its lowest version")
    bundled = BUNDLED.get(package["name"])
    if bundled:
        (file, pattern), least, why = bundled
        text = (Path(package["manifest_path"]).parent / file).read_text() if file else package["version"]
        version = re.search(pattern, text)
        if not version:
            found.append(f"{name}: the version of its C is not found any more")
        elif number(version[1]) < number(least):
            found.append(f"{name} has {version[1]} in it, and {least} is the lowest allowed: {why}")
    return found


def main() -> int:
    licences = set(tomllib.loads(Path(".cargo/deny.toml").read_text())["licenses"]["allow"])
    packages = {}
    for target in TARGETS:
        command = ["cargo", "metadata", "--locked", "--format-version", "1", "--all-features",
                   "--filter-platform", target]
        metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        used = {node["id"] for node in metadata["resolve"]["nodes"]}
        packages |= {p["id"]: p for p in metadata["packages"] if p["id"] in used}
    found = [fault for p in packages.values() for fault in faults(p, licences)]
    for fault in found:
        print(f"licences: {fault}", file=sys.stderr)
    unused = set(BUNDLED) - {p["name"] for p in packages.values()}
    if unused:
        print(f"licences: not in Cargo.lock any more: {', '.join(sorted(unused))}", file=sys.stderr)
    if found or unused:
        return 1
    print(f"licences: {len(packages)} crates, every licence and bundled version allowed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
