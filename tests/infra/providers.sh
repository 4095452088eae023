# Chooses where Terraform gets its providers from; other scripts source this file.
#
# `providers DIR` looks for a file-system mirror: the directory in TRIAD_TF_MIRROR, or one below /opt that has the AWS
# provider. If there is one, it writes a configuration into DIR and exports TF_CLI_CONFIG_FILE. A user's own Terraform
# configuration is not changed; without any, Terraform uses the registry.

providers() {
  local mirror="${TRIAD_TF_MIRROR:-}" found
  if [ -z "$mirror" ] && [ ! -e "${TF_CLI_CONFIG_FILE:-${HOME:-}/.terraformrc}" ]; then
    for found in /opt/*/registry.terraform.io/hashicorp/aws; do
      if [ -d "$found" ]; then mirror="${found%/registry.terraform.io/*}"; fi
    done
  fi
  if [ -z "$mirror" ]; then return 0; fi
  [ -d "$mirror" ] || { echo "TRIAD_TF_MIRROR: there is no directory $mirror" >&2; exit 1; }
  printf 'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n' "$mirror" > "$1/terraform.rc"
  export TF_CLI_CONFIG_FILE="$1/terraform.rc"
}
