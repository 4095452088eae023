#!/usr/bin/env bash
# Checks the licences, advisories and sources of all crates (cargo-deny), and on
# `tests/supply.sh sbom DIR` writes a bill of materials of each deployed binary (CycloneDX, JSON).
# Exit codes: 0 success, 1 a check failed, 3 a tool or the database of advisories is missing and all other
# checks succeeded.
set -euo pipefail
cd -P "$(dirname "$0")/.."

if [ "${1:-}" = sbom ]; then
  out="${2:?tests/supply.sh sbom DIR}"
  cargo cyclonedx --version >/dev/null 2>&1 || { echo "supply: cargo install cargo-cyclonedx --version 0.5.7 --locked" >&2; exit 3; }
  mkdir -p "$out"
  cargo cyclonedx --format json --describe binaries --all-features --target all --quiet
  # cargo-cyclonedx writes each file next to its crate's manifest.
  find . -name '*_bin.cdx.json' -not -path './target/*' -exec mv -t "$out" {} +
  bills=$(find "$out" -name '*.cdx.json' | wc -l)
  echo "supply: $bills bills of materials in $out"
  [ "$bills" -gt 0 ] || exit 1
  exit 0
fi

# shellcheck source=tests/skips.sh
. tests/skips.sh
cargo deny --version >/dev/null 2>&1 || {
  skipped licence-texts "cargo-deny is missing (cargo install cargo-deny --locked): neither they nor advisories are checked"
  exit 3
}
cargo deny --all-features check --hide-inclusion-graph licenses bans sources
if cargo deny fetch db >/dev/null 2>&1; then
  cargo deny --all-features check --hide-inclusion-graph advisories
else
  skipped advisories "their database cannot be had"
  exit 3
fi
