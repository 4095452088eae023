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

step "Form"
cargo fmt --all --check

step "Lints"
cargo clippy --workspace --all-targets --locked -- -D warnings
# The places for planted bugs.
cargo clippy -p triad-core -p triad-runtime -p triad-sim -p triad-model --all-targets \
  --all-features --locked -- -D warnings

step "Binaries that the tests start"
cargo build --workspace --bins --locked

step "Tests"
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace --locked --no-fail-fast
else
  cargo test --workspace --locked --no-fail-fast --lib --bins --tests
fi

step "Logging in to Kafka, with OpenSSL"
# From source it takes minutes and perl; for tests, what the system has will do.
openssl=(env)
if pkg-config --exists openssl 2>/dev/null; then openssl=(env OPENSSL_NO_VENDOR=1); fi
login=(-p triad-login -p triad-kafka -p triad-setup --features triad-setup/kafka-auth --locked)
"${openssl[@]}" cargo clippy "${login[@]}" --all-targets -- -D warnings
if cargo nextest --version >/dev/null 2>&1; then
  "${openssl[@]}" cargo nextest run "${login[@]}" --no-fail-fast
else
  "${openssl[@]}" cargo test "${login[@]}" --no-fail-fast --lib --tests
fi

step "Documentation examples"
cargo test --workspace --locked --doc

step "The drill"
examples/drill.sh target/debug/triad > target/drill.md

# Seeds, crash points, planted bugs and the model.
tests/proof.sh

step "What is deployed: templates, roles, compose files, secrets"
# 3: Terraform's providers could not be had, which the script has said loudly.
tests/infra.sh || [ $? = 3 ]
