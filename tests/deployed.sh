#!/usr/bin/env bash
# The deployed test: follows docs/how-to/deploy-to-aws.md against an AWS on this machine, and checks
# what then runs. docs/explanation/deployed-test.md says what of it is real, what is emulated, what stays unproven.
#
# MiniStack (pinned, in .venv-deployed) stands for AWS, with IAM enforcement on; the embedded broker
# with its data on disk for Kafka; triad-mapping-emulator for the event source mappings. All of it listens on
# loopback alone, in a directory of its own, and is stopped at the end.
# Needs terraform, python3 with venv, cargo, and what infra/package.sh needs; PyPI and crates.io for
# the first run. Exit codes: 0 all is well, 1 a check failed, 3 a tool or Terraform's providers could
# not be had, with a loud line.
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
# As for the other tests: what OpenSSL the system has will do for the command line.
if pkg-config --exists openssl 2>/dev/null; then openssl=(env OPENSSL_NO_VENDOR=1); else openssl=(env); fi
# With the tests: by themselves binaries have other features of the crates below, and after the tests most of
# those would be built again.
"${openssl[@]}" cargo build --quiet --workspace --all-features --lib --bins --tests --locked
.venv-deployed/bin/python tests/deployed/run.py
