#!/usr/bin/env bash
# Checks the checkers: every mutant of tests/testkit/mutants must be caught.
#
#   tests/mutants.sh              all mutants of the rules
#   tests/mutants.sh NAME…        only these
#   tests/mutants.sh --adapters [NAME…]    mutants outside of the rules: stores, loops, shells, wiring, Terraform
#   tests/mutants.sh --apply      only makes the scratch copy, target/mutants
#
# The patches are applied together to a scratch copy of the work tree, which is built once; a patch
# that no longer applies is a failure. Then one mutant at a time is switched on, and the simulated
# world runs seeds until an invariant is violated. Mutants with a line `Model:` also run in the exhaustive
# model. TRIAD_SEEDS sets the most seeds (20,000), TRIAD_THREADS the threads (2). Exit code 0 if all
# are caught.
#
# Mutants outside of the rules (tests/testkit/mutants/adapters, and tests/testkit/mutants/infra for Terraform) change
# code that neither the simulated world nor the model runs. Each names the tests that must fail with it; they run
# first without any mutant, and then with it. Needs cargo-nextest, and terraform for the module.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."

root=$PWD
copy=$root/target/mutants
threads=${TRIAD_THREADS:-2}
seeds=${TRIAD_SEEDS:-20000}
only_apply=no adapters=no
case "${1:-}" in
  --apply) only_apply=yes; shift ;;
  --adapters) adapters=yes; shift ;;
  -*) sed -n '2,19s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

name_of() { basename "$1" .patch | sed 's/^[0-9]*-//'; }

# Unchanged files keep their modification time, so that Cargo does not compile them again.
rm -rf "$copy.before"
if [ -d "$copy" ]; then mv "$copy" "$copy.before"; fi
mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | grep -zv '^tests/testkit/mutants/' \
  | while IFS= read -r -d '' file; do if [ -f "$file" ]; then printf '%s\0' "$file"; fi; done \
  | tar --create --null --files-from=- | tar --extract --directory "$copy"
cp -p tests/testkit/mutants/mutant.rs "$copy/shared/kernel/core/src/mutant.rs"
printf '\npub mod mutant;\n' >> "$copy/shared/kernel/core/src/lib.rs"
# For crates that do not depend on the core directly.
printf '\npub use triad_core::mutant;\n' >> "$copy/shared/kernel/runtime/src/lib.rs"

failed=0
# The variable is also passed to processes that tests start.
sed -i 's/^    command\.env_clear()/    command.env_clear().envs(std::env::var("TRIAD_MUTANT").map(|name| ("TRIAD_MUTANT", name)))/' \
  "$copy/tests/src/process.rs"
grep -q TRIAD_MUTANT "$copy/tests/src/process.rs" || { echo "mutants: tests/src/process.rs has changed" >&2; exit 1; }

for patch in tests/testkit/mutants/patches/*.patch tests/testkit/mutants/adapters/*.patch; do
  name=$(name_of "$patch")
  grep -q "mutant!(\"$name\")" "$patch" || { echo "mutants: $patch switches no $name" >&2; failed=1; }
  # Keeps Git from treating the scratch copy as a part of this repository.
  (cd "$copy" && GIT_CEILING_DIRECTORIES=$root/target git apply "$root/$patch") || {
    echo "mutants: $patch does not apply any more: bring it up to date (docs/CONTRIBUTING.md)" >&2
    failed=1
  }
done
if [ "$failed" = 1 ]; then exit 1; fi
(cd "$copy" && find . -type f) | while IFS= read -r file; do
  if cmp -s "$copy/$file" "$copy.before/$file"; then touch -r "$copy.before/$file" "$copy/$file"; fi
done
rm -rf "$copy.before"
if [ "$only_apply" = yes ]; then echo "$copy"; exit 0; fi
if [ "$adapters" = yes ]; then exec python3 tests/testkit/mutants/adapters.py "$@"; fi

# Checked, because a name without a mutant would be reported neither as caught nor as missed.
for name in "$@"; do
  found=(tests/testkit/mutants/patches/{[0-9][0-9],[0-9][0-9][0-9]}-"$name".patch)
  [ "${#found[@]}" -gt 0 ] || { echo "mutants: there is no $name" >&2; exit 2; }
done

# Other crates are the same as in the work tree, so their compiled files are reused.
if [ ! -d target/mutants-built ] && [ -d target/release ]; then
  mkdir target/mutants-built
  cp -a target/release target/mutants-built/release
  # Our crates are compiled again: by their times, files compiled without the patches could pass for up to date.
  rm -rf target/mutants-built/release/.fingerprint/triad-*
fi
# Without clippy: a mutant need not pass the lints.
env -u RUSTC_WORKSPACE_WRAPPER cargo build --release --locked --manifest-path "$copy/Cargo.toml" --target-dir target/mutants-built \
  -p triad-sim -p triad-model
sim=target/mutants-built/release/triad-sim
model=target/mutants-built/release/triad-model

wanted() {
  if [ $# = 1 ]; then return 0; fi
  local name=$1 each
  shift
  for each in "$@"; do if [ "$each" = "$name" ]; then return 0; fi; done
  return 1
}

caught=0 missed=()
printf '%-44s %s\n' "mutant" "caught by"
for patch in tests/testkit/mutants/patches/*.patch; do
  name=$(name_of "$patch")
  [ $# = 0 ] || wanted "$name" "$@" || continue
  if found=$(TRIAD_MUTANT=$name "$sim" first-breach --seeds "$seeds" --threads "$threads" 2>/dev/null); then
    printf '%-44s %s\n' "$name" "$found"
    caught=$((caught + 1))
  else
    printf '%-44s NOT CAUGHT in %s seeds\n' "$name" "$seeds"
    missed+=("$name")
  fi
done
for patch in $(grep -l '^Model: ' tests/testkit/mutants/patches/*.patch); do
  name=$(name_of "$patch")
  [ $# = 0 ] || wanted "$name" "$@" || continue
  policy=$(sed -n 's/^Model: //p' "$patch")
  # Exit code 1 means that a property is broken or that something was never reached; only the first counts.
  found=$(TRIAD_MUTANT=$name "$model" --policy "$policy" --threads "$threads" --instances 1 --horizon 26 \
    2>/dev/null | sed -n 's/^ *BROKEN *//p' | head -1) || true
  if [ -n "$found" ]; then
    printf '%-44s %s\n' "$name, in the model" "$found"
    caught=$((caught + 1))
  else
    printf '%-44s NOT CAUGHT\n' "$name, in the model"
    missed+=("$name in the model")
  fi
done
printf '\n%s caught, %s not\n' "$caught" "${#missed[@]}"
[ "${#missed[@]}" = 0 ] && [ "$caught" -gt 0 ]
