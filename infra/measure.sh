#!/usr/bin/env bash
# Prints the size of the functions' zips, and of this machine's architecture their cold start
# (process start to first response, under a Runtime API over embedded engines) and their memory.
#   infra/measure.sh [DIR]      DIR: where infra/package.sh has put them, target/packages
set -euo pipefail
cd "$(dirname "$0")/.."
packages="${1:-target/packages}"
[ -d "$packages" ] || { echo "measure: $packages is missing; run infra/package.sh first" >&2; exit 2; }

echo "| zip | bytes |"
echo "|---|---|"
for zip in "$packages"/*/*.zip; do echo "| ${zip#"$packages"/} | $(stat -c %s "$zip") |"; done
echo

case "$(uname -m)" in x86_64) own=x86_64 ;; *) own=arm64 ;; esac
[ -d "$packages/$own" ] || { echo "measure: no zips for $own, this machine's architecture" >&2; exit 2; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
names=()
for zip in "$packages/$own"/*.zip; do
  name="$(basename "$zip" .zip)"
  python3 -m zipfile -e "$zip" "$work/$name"
  chmod +x "$work/$name/bootstrap"
  names+=("$name")
done
cargo run --quiet --locked -p triad-tests --bin measure-functions -- "$work" "${names[@]}" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
