#!/usr/bin/env bash
# Checks everything: form, lints, unit tests, the simulated world, real processes and protocols.
# Needs a C compiler, make and zlib's headers (librdkafka is built from source), OpenSSL's headers
# with pkg-config or else perl (its TLS), python3 with venv (two of the other clients), curl and jq
# (the drill). Ends with exit code 0 if all is well.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

for tool in cargo cc curl jq make python3; do
  command -v "$tool" >/dev/null || { echo "verify: $tool is missing; install it first" >&2; exit 2; }
done

step "Python clients for the tests with other clients (.venv)"
if [ ! -x .venv/bin/python ]; then python3 -m venv .venv; fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/python-requirements.txt

# Everything, with Kafka over TLS, which is off by default for the sake of those who only try it.
# OpenSSL from source takes minutes and perl: for tests, what the system has will do.
everything=(--workspace --features triad-setup/kafka-auth --locked)
if pkg-config --exists openssl 2>/dev/null; then export OPENSSL_NO_VENDOR=1; fi

step "Form"
cargo fmt --all --check

step "Lints"
cargo clippy "${everything[@]}" --all-targets -- -D warnings
# The places for planted bugs.
cargo clippy -p triad-core -p triad-runtime -p triad-sim -p triad-model --all-targets \
  --all-features --locked -- -D warnings

step "Binaries that the tests start"
cargo build "${everything[@]}" --bins

step "Tests"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run "${everything[@]}" --no-fail-fast
else
  cargo test "${everything[@]}" --no-fail-fast --lib --bins --tests
fi

step "Documentation examples"
cargo test "${everything[@]}" --doc

step "The drill"
examples/drill.sh target/debug/triad > target/drill.md

# Seeds, crash points, planted bugs and the model.
tests/proof.sh

step "What is deployed: templates, roles, compose files, secrets"
# 3: Terraform's providers could not be had, which the script has said loudly.
tests/infra.sh || [ $? = 3 ]

step "What is deployed: on an AWS on this machine"
tests/deployed.sh --quick || [ $? = 3 ]

step "What it is made of: licences, advisories, sources"
tests/supply.sh || [ $? = 3 ]
