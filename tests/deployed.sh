#!/usr/bin/env bash
# The deployed test: follows docs/how-to/deploy-to-aws.md against an AWS emulated on this machine, and checks
# the installation. docs/explanation/deployed-test.md says which parts are real, emulated, or not proven.
#
# MiniStack (pinned, in .venv-deployed) emulates AWS and enforces IAM; the embedded broker with its data on disk
# stands for Kafka; triad-mapping-emulator for the event source mappings. All listen on loopback only, keep their
# files in one temporary directory, and are stopped at the end.
# Needs terraform, python3 with venv, cargo, and what infra/package.sh needs; PyPI and crates.io for
# the first run. Exit codes: 0 success, 1 a check failed, 3 a tool or Terraform's providers are missing,
# which is reported.
#
#   tests/deployed.sh           the zips of infra/package.sh, as they are released
#   tests/deployed.sh --quick   zips of the programs that the other tests run, built without the
#                               quarter of an hour that a small binary takes
#
# TRIAD_TF_MIRROR=DIR   Terraform providers from a file-system mirror instead of the registry
# TRIAD_KEEP=1          leave the directory with logs and Terraform's state
set -euo pipefail
cd -P "$(dirname "$0")/.."

case "${1:-}" in
  "") tools=(make perl) ;;
  --quick) tools=() ; export TRIAD_QUICK=1 ;;
  *) echo "deployed: $1: the only option is --quick" >&2; exit 2 ;;
esac

# shellcheck source=tests/skips.sh
. tests/skips.sh
skip() { skipped deployed "$*: what is deployed is not tested"; exit 3; }
for tool in terraform python3 cargo "${tools[@]}"; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "python3 is older than 3.11"

stamp="$(cat tests/deployed/requirements.txt)"
if [ "$(cat .venv-deployed/stamp 2>/dev/null || true)" != "$stamp" ]; then
  rm -rf .venv-deployed
  python3 -m venv .venv-deployed
  .venv-deployed/bin/python -m pip install --quiet --disable-pip-version-check -r tests/deployed/requirements.txt \
    || skip "PyPI cannot be reached"
  printf '%s\n' "$stamp" > .venv-deployed/stamp
fi

# shellcheck source=tests/infra/providers.sh
. tests/infra/providers.sh
probe="$(mktemp -d)"
trap 'rm -rf "$probe"' EXIT
providers "$probe"
TF_DATA_DIR="$probe/data" terraform -chdir=infra init -backend=false -no-color > "$probe/init.out" 2>&1 || {
  cat "$probe/init.out" >&2
  skip "Terraform's providers cannot be had; without the registry, set TRIAD_TF_MIRROR"
}

case "$(uname -m)" in x86_64) TRIAD_ARCHITECTURES=x86_64 ;; *) TRIAD_ARCHITECTURES=arm64 ;; esac
export TRIAD_ARCHITECTURES
# As for the other tests: the command line may use the system's OpenSSL.
if pkg-config --exists openssl 2>/dev/null; then openssl=(env OPENSSL_NO_VENDOR=1); else openssl=(env); fi
# Built together with the tests: the binaries alone would have other features of the dependencies, and the tests would
# then compile most of those again.
"${openssl[@]}" cargo build --quiet --workspace --all-features --lib --bins --tests --locked
.venv-deployed/bin/python tests/deployed/run.py
