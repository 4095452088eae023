#!/usr/bin/env bash
# Checks the infrastructure without deploying it: the Terraform module in infra/, its example, the
# compose files of localstack/, the alarms in infra/dashboards/, and that no secret is in the repository.
# Needs git and python3 (3.11 or newer) with venv; PyPI and npm for the first run; terraform; promtool.
# Exit codes: 0 success, 1 a check failed, 2 a tool is missing, 3 the module was not checked because terraform or
# its providers are missing, and all other checks succeeded.
#
# TRIAD_TF_MIRROR=DIR takes Terraform providers from a file-system mirror instead of the registry.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }
fail() { echo "infra: $*" >&2; exit 1; }
# shellcheck source=tests/skips.sh
. tests/skips.sh

for tool in git python3; do
  command -v "$tool" >/dev/null || { echo "infra: $tool is missing; install it first" >&2; exit 2; }
done

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

step "Tools of the checks (.venv-infra)"
# Two environments, because checkov needs another version of detect-secrets than the scan does. Of docker-compose only
# the schema is used, so its dependencies are not installed.
scanner="detect-secrets==1.5.0"
compose_schema="docker-compose==1.29.2"
stamp="$(cat tests/infra-requirements.txt; echo "$scanner $compose_schema")"
if [ "$(cat .venv-infra/stamp 2>/dev/null || true)" != "$stamp" ]; then
  rm -rf .venv-infra
  python3 -m venv .venv-infra/checks
  python3 -m venv .venv-infra/secrets
  pip_options=(--quiet --disable-pip-version-check)
  .venv-infra/checks/bin/python -m pip install "${pip_options[@]}" -r tests/infra-requirements.txt
  .venv-infra/checks/bin/python -m pip install "${pip_options[@]}" --no-deps "$compose_schema"
  .venv-infra/secrets/bin/python -m pip install "${pip_options[@]}" "$scanner"
  printf '%s\n' "$stamp" > .venv-infra/stamp
fi
python=.venv-infra/checks/bin/python
# Runs a command that also succeeds if it has checked nothing: its output must match a pattern.
showing() {
  local pattern=$1 shown
  shift
  shown=$(mktemp -p "$work")
  "$@" | tee "$shown" || return 1
  grep -Eq "$pattern" "$shown" || { echo "infra: nothing was looked at by: $*" >&2; return 1; }
}
checkov() { showing '^Passed checks: [1-9]' .venv-infra/checks/bin/checkov --config-file "$@"; }
# At least one run must have passed, and none may be skipped.
terraform_test() { showing '^Success! [1-9][0-9]* passed, 0 failed\.' terraform "$1" test -no-color "${@:2}"; }

# These checks need no Terraform and run in the background; their output is printed at the end.
{
  status=0
  step "Secrets"
  "$python" tests/infra/secret_scan.py .venv-infra/secrets/bin/detect-secrets tests/infra/secrets-allowed.toml || status=1
  step "Compose files"
  "$python" tests/infra/compose_files.py localstack/compose*.yaml || status=1
  step "The bill: COST.md shows what cost.py says"
  "$python" tests/infra/cost_figures.py infra/COST.md || status=1
  step "Alarms for Prometheus: each rings for what it is for, and is silent otherwise"
  if command -v promtool >/dev/null; then
    promtool check rules infra/dashboards/alerts.yaml || status=1
    promtool test rules infra/dashboards/alerts_test.yaml || status=1
  else
    skipped promtool "promtool is missing (Debian: prometheus): the alarms in infra/dashboards/ are not checked"
  fi
  step "Provider 6: its types know every argument"
  types=.venv-infra/cdktn-provider-aws-24.1.0.tgz
  if [ -s "$types" ] || npm pack --silent --pack-destination .venv-infra @cdktn/provider-aws@24.1.0 > /dev/null; then
    "$python" tests/infra/provider6.py "$types" infra infra/endpoints infra/examples/complete || status=1
  else
    skipped provider6 "npm is missing or has no @cdktn/provider-aws: the module's arguments are not held against provider 6"
  fi
  step "checkov, source"
  checkov tests/infra/checkov-source.yaml --directory infra || status=1
  echo "$status" > "$work/aside.status"
} > "$work/aside.out" 2>&1 &
aside=$!

module_checks() {
  # shellcheck source=tests/infra/providers.sh
  . tests/infra/providers.sh
  providers "$work"
  export TF_IN_AUTOMATION=1 TF_INPUT=0 CHECKPOINT_DISABLE=1
  init() {
    terraform -chdir="$1" init -backend=false -no-color > "$work/init.out" 2>&1 || {
      cat "$work/init.out" >&2
      echo "infra: terraform init failed in $1; without the registry, set TRIAD_TF_MIRROR to a directory with the provider" >&2
      exit 3
    }
  }

  step "Terraform: form"
  terraform fmt -check -recursive -diff infra

  step "Terraform: the inputs, which need no provider"
  export TF_DATA_DIR="$work/inputs"
  init infra/tests/inputs
  terraform_test -chdir=infra/tests/inputs

  step "Terraform: the example"
  export TF_DATA_DIR="$work/example"
  init infra/examples/complete
  terraform -chdir=infra/examples/complete validate -no-color

  step "Terraform: the module"
  export TF_DATA_DIR="$work/module"
  init infra
  terraform -chdir=infra validate -no-color
  terraform_test -chdir=infra

  step "The bill: what cost.py has built in is what the example plans"
  terraform -chdir=infra test -json -verbose -filter=tests/example.tftest.hcl | "$python" tests/infra/plans.py "$work/example"
  "$python" tests/infra/cost_figures.py --plan "$work/example/the_example_plans.json"

  step "Roles, against AWS's own list of actions"
  terraform -chdir=infra test -json -verbose -test-directory=tests/reviews | "$python" tests/infra/plans.py "$work/plans"
  "$python" tests/infra/policies.py "$work"/plans/*.json

  step "Roles, as the tests read them"
  "$python" tests/infra/permissions.py "$work"/plans/*.json | diff infra/tests/permissions.json - \
    || fail "infra/tests/permissions.json is not what the module makes; tests/infra/render.sh prints that"

  step "Alarms: the sections that they name, and how the tests read them"
  "$python" tests/infra/alarms.py --check docs/how-to/handle-alerts.md infra/dashboards/alerts.yaml "$work"/plans/*.json
  "$python" tests/infra/alarms.py --render "$work/plans/msk_iam.json" | diff infra/tests/alarms.json - \
    || fail "infra/tests/alarms.json is not what the module makes; tests/infra/render.sh --alarms prints that"

  step "checkov, plans"
  checkov tests/infra/checkov-plans.yaml --directory "$work/plans"
}

status=0
if command -v terraform >/dev/null; then
  # As a background job, because bash ignores `set -e` in a command before `||`.
  ( module_checks ) &
  wait $! || status=$?
else
  echo "infra: terraform is missing" >&2
  status=3
fi

wait "$aside" || true
cat "$work/aside.out"
[ "$(cat "$work/aside.status" 2>/dev/null || echo 1)" = 0 ] || status=1

case "$status" in
  0) step "infra: all is well" ;;
  3) skipped terraform "terraform or its providers cannot be had, see above: the module in infra/ is not checked" ;;
  *) step "infra: FAILED, see above"; status=1 ;;
esac
exit "$status"
