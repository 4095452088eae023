#!/usr/bin/env bash
# Checks everything: form, lints, unit tests, the simulated world, real processes and protocols.
# Needs a C compiler, make and zlib's headers (librdkafka is built from source) and python3 with
# venv (two of the other clients). Ends with exit code 0 if all is well.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

for tool in cargo cc make python3; do
  command -v "$tool" >/dev/null || { echo "verify: $tool is missing; install it first" >&2; exit 2; }
done

step "Python clients for the tests with other clients (.venv)"
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/python-requirements.txt

step "Form"
cargo fmt --all --check

step "Lints"
cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

step "Binaries that the tests start"
cargo build --workspace --bins --all-features --locked

step "Tests"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --all-features --locked --no-fail-fast
else
  cargo test --workspace --all-features --locked --no-fail-fast --lib --bins --tests
fi

step "Documentation examples"
cargo test --workspace --all-features --locked --doc
