#!/usr/bin/env bash
# Prints the correct content of infra/tests/permissions.json, every permission of every role of the module, or of
# infra/tests/alarms.json, every alarm.
#
#   tests/infra/render.sh > target/permissions.json && mv target/permissions.json infra/tests/permissions.json
#   tests/infra/render.sh --alarms > target/alarms.json && mv target/alarms.json infra/tests/alarms.json
#   tests/infra/render.sh DIRECTORY     for another copy of infra/
#
# Needs terraform and python3. With TRIAD_TF_MIRROR=DIR, Terraform's providers come from a file-system mirror
# instead of the registry.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
wanted=permissions
if [ "${1:-}" = --alarms ]; then wanted=alarms; shift; fi
module="${1:-$here/../../infra}"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/infra/providers.sh
. "$here/providers.sh"
providers "$work"
export TF_IN_AUTOMATION=1 TF_INPUT=0 CHECKPOINT_DISABLE=1 TF_DATA_DIR="$work/data"

terraform -chdir="$module" init -backend=false -no-color >&2
terraform -chdir="$module" test -json -verbose -test-directory=tests/reviews | python3 "$here/plans.py" "$work/plans" >&2
case "$wanted" in
  permissions) python3 "$here/permissions.py" "$work"/plans/*.json ;;
  alarms) python3 "$here/alarms.py" --render "$work/plans/msk_iam.json" ;;
esac
