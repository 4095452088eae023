#!/usr/bin/env bash
# Checks the work tree, and prints the duration of each part.
#
#   tests/verify.sh          what a contributor runs: format, lints, and all tests except the slow ones
#   tests/verify.sh --all    what CI runs: with Kafka over TLS, every test, documentation examples, the
#                            drill, the proof, what is deployed, licences and advisories
#
# Needs a C compiler and make (librdkafka and zlib are built from source); with --all also
# curl, jq, OpenSSL's headers with pkg-config or else perl (its TLS), and python3 with venv (the other
# clients; for kafkajs Node with npm; Chromium; promtool). Skipped checks are listed at the end. Exit codes: 0 all checks
# succeeded and tests/skips-allowed.txt allows the skipped ones; 3 if it does not allow one of them.
set -euo pipefail
cd "$(dirname "$0")/.."

all=no
case "${1:-}" in
  "") ;;
  --all) all=yes ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

tools=(cargo clippy-driver cc make)
if [ "$all" = yes ]; then tools+=(curl jq python3); fi
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || { echo "verify: $tool is missing; install it first" >&2; exit 2; }
done

# Checked first, because a full disk would end the linking with an error that does not name the reason.
gib=6
if [ "$all" = yes ]; then gib=12; fi
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
if [ "$free" -lt "$gib" ] && [ ! -d target ]; then
  echo "verify: $free GiB are free here, and a build from nothing needs $gib: make room first" >&2
  exit 2
fi

# The parts and their durations, which are printed however the run ends.
took=()
part=""
finish_part() {
  if [ -n "$part" ]; then took+=("$(printf '%5d s  %s' $((SECONDS - began)) "$part")"); fi
}
step() {
  finish_part
  part=$*
  began=$SECONDS
  printf '\n== %s\n' "$*"
}
report() {
  local status=$?
  finish_part
  printf '\n== What it took\n'
  printf '%s\n' "${took[@]}" "$(printf '%5d s  all of it' "$SECONDS")"
  if ! skips_allowed "$TRIAD_SKIPS" && [ "$status" = 0 ]; then status=3; fi
  case "$status" in
    0) if [ -s "$TRIAD_SKIPS" ]; then echo "verify: what was checked is well"; else echo "verify: all is well"; fi ;;
    3) echo "verify: FAILED: something was left out that must be checked" >&2 ;;
    *) echo "verify: FAILED" >&2 ;;
  esac
  rm -f "$TRIAD_SKIPS"
  exit "$status"
}
# shellcheck source=tests/skips.sh
. tests/skips.sh
TRIAD_SKIPS=$(mktemp)
export TRIAD_SKIPS
trap report EXIT

nextest() {
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run "$@"
  else
    echo "verify: cargo-nextest is not there: cargo test runs every test, the slow ones too" >&2
    cargo test "${everything[@]}" --no-fail-fast --lib --bins --tests
  fi
}

everything=(--workspace --locked)
if [ "$all" = yes ]; then
  # With Kafka over TLS. The tests use the system's OpenSSL, because compiling it takes minutes and needs perl.
  everything+=(--all-features)
  if pkg-config --exists openssl 2>/dev/null; then export OPENSSL_NO_VENDOR=1; fi
else
  everything+=(--features triad/aws,triad/mcp,triad/traces,triad/bench)
fi

step "Form"
cargo fmt --all --check

# One compilation with lints: `cargo clippy` as a separate pass would check every dependency first, which takes
# minutes if nothing is compiled yet. (The arguments are those that cargo-clippy passes.)
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# No other build uses these files; without line tables the compilation is faster.
export CARGO_PROFILE_DEV_DEBUG=0

if [ "$all" = yes ]; then
  # Compiled together, crates have the features that any of them needs; users compile the command line alone.
  step "What users build by itself: the command line for one machine"
  cargo check --locked -p triad

  step "Clients in Python and Node for the tests with other clients (.venv, tests/node)"
  if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/python-requirements.txt
  if ! npm ci --silent --no-audit --no-fund --ignore-scripts --prefix tests/node; then
    rm -rf tests/node/node_modules
    skipped kafkajs "npm is not there, or its packages cannot be had"
  fi
fi

# The binaries that tests start are compiled together with the tests: alone they would have other features of the
# dependencies, and most of those would be compiled twice.
step "Lints, the tests, and the binaries that they start"
cargo build "${everything[@]}" --lib --bins --tests --examples

step "Tests"
if [ "$all" = no ]; then
  nextest "${everything[@]}" --no-fail-fast --profile quick
  skipped slow-tests "documentation examples, the drill, the proof, what is deployed, the supply chain too"
  exit 0
fi
nextest "${everything[@]}" --no-fail-fast

step "Documentation examples"
cargo test "${everything[@]}" --doc

step "The drill"
examples/drill.sh target/debug/triad > target/drill.md
python3 examples/drill_page.py target/drill.md docs/tutorial/drill.md

step "The proof: seeds, crash points, mutants and the model"
tests/proof.sh

step "What is deployed: templates, roles, compose files, secrets"
may_skip tests/infra.sh

step "What is deployed: on an AWS on this machine"
may_skip tests/deployed.sh --quick

step "What it is made of: licences, versions of bundled C; licence texts and advisories"
python3 -m doctest tests/licences.py
python3 tests/licences.py
may_skip tests/supply.sh
