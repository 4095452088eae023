#!/usr/bin/env bash
# Checks the guarantees beyond the tests; docs/explanation/methods-of-proof.md says what each part shows.
#
#   tests/proof.sh                      the parts that CI runs, some ten minutes on two cores
#   tests/proof.sh --long               a million seeds, the larger models, mutants around the rules,
#                                       wrong constants, 20,000 orders under kills, 100,000 on one machine under
#                                       kills and losses of power, 50,000 bad records, the fuzzers; many hours
#   tests/proof.sh --long NAME…         only these parts of it: seeds, crashes, mutants, models, larger-models,
#                                       mutants-around, generic-mutants, constants, chaos, power, bad-records, dynamodb-local,
#                                       versions, fuzzers
#   TRIAD_OTHER_VERSION=COMMIT tests/proof.sh --long versions   against another version than the last release
#   TRIAD_MINUTES=60 tests/proof.sh --long    60 minutes for the seeds; the next call continues
#
# The long run may be stopped at any time: target/proof keeps the output of each part with commit and date, and the
# next call continues with the parts that have not succeeded, and with the next seed. On another machine, copy this
# directory first. To repeat parts after a change, name them, or remove target/proof to repeat all. After a failed
# part the others still run; its output is in target/proof/NAME.now.
#
# Exit codes: 0 all parts succeeded, 1 a part failed, 3 a part of --long was skipped and all others succeeded.
# Failed and skipped parts are listed at the end. TRIAD_SEEDS sets the number of seeds, TRIAD_THREADS the number of
# threads (2).
set -euo pipefail
cd "$(dirname "$0")/.."

long=no
case "${1:-}" in
  "") ;;
  --long) long=yes; shift ;;
  *) sed -n '2,23s/^# \{0,1\}//p' tests/proof.sh >&2; exit 2 ;;
esac
only=" $* "
for name in "$@"; do
  grep -q "^part $name " tests/proof.sh || { echo "proof: there is no part $name" >&2; exit 2; }
done
threads=${TRIAD_THREADS:-2}
kept=target/proof
# Freed memory is kept for the next simulated world, which saves a seventh of the time.
export MIMALLOC_PURGE_DELAY=${MIMALLOC_PURGE_DELAY:--1}

step() { printf '\n== %s\n' "$*"; }
# shellcheck source=tests/skips.sh
. tests/skips.sh

# The parts of the long run that failed.
failed=()

# part NAME TITLE COMMAND…: runs a part. In the long run its output is kept with commit and date; a part that has
# succeeded runs again only if it is named, and a failed one is noted.
part() {
  local name=$1 title=$2 skips
  shift 2
  if [ "$only" != "  " ] && [[ "$only" != *" $name "* ]]; then return; fi
  step "$title"
  if [ "$long" = no ]; then
    "$@"
    return
  fi
  if [ "$only" = "  " ] && [ -f "$kept/$name" ]; then
    head -n 1 "$kept/$name"
    tail -n 3 "$kept/$name"
    echo "held before: $kept/$name"
    return
  fi
  rm -f "$kept/$name"
  skips=$(wc -l < "$TRIAD_SKIPS")
  # In a separate process, because `set -e` has no effect in a function that is called in a condition.
  if ! bash -c 'set -euo pipefail; . tests/skips.sh; "$@"' part "$@" 2>&1 | tee "$kept/$name.now"; then
    failed+=("$title: $kept/$name.now")
    return
  fi
  # A part that has skipped something does not count as done.
  if [ "$(wc -l < "$TRIAD_SKIPS")" = "$skips" ]; then
    { echo "commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)"; cat "$kept/$name.now"; } > "$kept/$name"
    rm "$kept/$name.now"
  fi
}

seeds() {
  local many=${TRIAD_SEEDS:-1000000}
  if [ "$long" = no ]; then
    "$sim" seeds --seeds "${TRIAD_SEEDS:-20000}" --threads "$threads"
    return
  fi
  "$sim" nightly --seeds "$many" --threads "$threads" --state "$kept/nightly.json" \
    --program "$(cat "$kept/begun")" ${TRIAD_MINUTES:+--minutes "$TRIAD_MINUTES"}
  grep -q "\"next\": $many\b" "$kept/nightly.json" \
    || skipped seeds "the $many seeds are not at their end; the next call goes on"
}

models() {
  for policy in retry compensate; do
    "$model" --policy "$policy" --threads "$threads" --instances 1 --horizon 28
    "$model" --policy "$policy" --threads "$threads" --instances 2 --horizon 18 --crashes 0
    # With crashes too: the horizon ends just after complete-by of the first attempt, also by the second clock.
    "$model" --policy "$policy" --threads "$threads" --instances 2 --horizon 13
  done
  # Parallel steps whose waits differ.
  "$model" --policy fork --threads "$threads" --steps 2 --instances 1 --horizon 24 --crashes 0
}

larger_models() {
  for policy in retry compensate; do
    "$model" --policy "$policy" --threads "$threads" --instances 1 --horizon 50
    "$model" --policy "$policy" --threads "$threads" --steps 2 --instances 1 --horizon 28
    # Without moves of partitions: with them it would need more than 24 GiB.
    "$model" --policy "$policy" --threads "$threads" --instances 2 --horizon 18 --rebalances 0
  done
}

# Some 200 of the mutants that cargo-mutants generates; another sample for each seed.
generic_mutants() {
  if ! cargo mutants --version >/dev/null 2>&1; then
    skipped generic-mutants "cargo-mutants is missing (cargo install cargo-mutants --locked)"
    return
  fi
  local all parts
  all=$(cargo mutants --list | wc -l)
  parts=$(((all + 199) / 200))
  cargo mutants --no-shuffle --sharding round-robin --shard "$((${TRIAD_SEED:-$(date +%s)} % parts))/$parts" --output target
}

release_binaries() {
  cargo build --release --locked --bins --features triad/aws -p triad -p triad-worker -p triad-broker \
    -p triad-reference-service -p triad-embedded -p triad-tests -p triad-chaos
}

chaos() {
  release_binaries
  target/release/triad-chaos --orders 20000
  # The store hangs for a minute, during a rolling restart of the workers.
  target/release/triad-chaos --orders 3000 --kind hang-store --faults 2
}

# Workers of two versions together: each restart of a worker switches its version.
versions() {
  local of=${TRIAD_OTHER_VERSION:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
  if [ -z "$of" ]; then
    skipped versions "there is no release yet: set TRIAD_OTHER_VERSION to a commit"
    return
  fi
  release_binaries
  git worktree remove --force target/other-version 2>/dev/null || true
  git worktree add --detach target/other-version "$of"
  (cd target/other-version && cargo build --release --locked -p triad-worker --target-dir ../other)
  git worktree remove --force target/other-version
  target/release/triad-chaos --orders 2000 --faults 12 --kind kill-worker --kind hang-store \
    --other-worker target/other/release/triad-worker
}

# Checks the number of tests, because a filter that matches no test would succeed, too.
tests_of() {
  local many=$1
  shift
  cargo test --locked -p triad-tests --features long "$@" | tee "$kept/tests-$$.out"
  grep -q "^test result: ok. $many passed" "$kept/tests-$$.out"
}

power() {
  release_binaries
  cargo build --release --locked -p triad-unsynced-layer
  TRIAD_TEST_BINARIES=$PWD/target/release TRIAD_POWER_ORDERS=100000 tests_of 1 --test all power:: -- --nocapture
}

bad_records() {
  cargo build --locked --workspace --features triad-tests/long --lib --bins --tests
  TRIAD_BAD_RECORDS=50000 tests_of 2 --test long bad_input:: -- --nocapture --test-threads 1 2> target/bad-input.log \
    | grep -v '"level":"WARN"'
}

fuzzers() {
  if ! cargo fuzz --version >/dev/null 2>&1; then
    skipped fuzzers "cargo-fuzz is missing (cargo install cargo-fuzz --locked)"
    return
  fi
  local target targets
  targets=$(cargo fuzz list --fuzz-dir tests/fuzz/libfuzzer)
  [ -n "$targets" ] || { echo "proof: there are no fuzz targets" >&2; exit 1; }
  for target in $targets; do
    # Without a sanitizer the stable compiler suffices. Sanitizers find memory errors, and the fuzzers reach no unsafe
    # code of ours.
    cargo fuzz run --sanitizer none --fuzz-dir tests/fuzz/libfuzzer --target-dir target/fuzz "$target" -- \
      -max_total_time="${TRIAD_FUZZ_SECONDS:-120}" -print_final_stats=1
  done
}

dynamodb_local() { may_skip tests/dynamodb-local.sh; }

step "Building"
cargo build --release --locked -p triad-sim -p triad-model
sim=target/release/triad-sim
model=target/release/triad-model

if [ "$long" = yes ]; then
  cargo build --profile dist --locked -p triad-sim
  sim=target/dist/triad-sim
  TRIAD_SKIPS=$(mktemp)
  export TRIAD_SKIPS long threads kept sim model
  export -f seeds models larger_models generic_mutants release_binaries chaos versions tests_of power bad_records fuzzers dynamodb_local
  trap 'rm -f "$TRIAD_SKIPS"' EXIT
  mkdir -p "$kept"
  [ -f "$kept/begun" ] || git rev-parse HEAD > "$kept/begun"
fi

part seeds "The simulated world: seeds" seeds
part crashes "The simulated world: every crash point of the reference workloads, and every pair" \
  "$sim" crashes --threads "$threads"
part mutants "The checkers are checked: mutants" \
  env TRIAD_THREADS="$threads" tests/mutants.sh
part models "The exhaustive model" models
if [ "$long" = no ]; then exit 0; fi

part larger-models "The exhaustive model, larger" larger_models
part mutants-around "The tests are checked: mutants around the rules" tests/mutants.sh --adapters
part generic-mutants "The tests are checked: a sample of what cargo-mutants makes" generic_mutants
part constants "Every constant is noticed, or explained" tests/constants.sh
part chaos "Real processes: 20,000 orders under kills and freezes" chaos
part versions "Workers of two versions side by side" versions
part power "One machine: 100,000 orders, 50 kills, 20 losses of power" power
part bad-records "Bad records: 50,000 through a worker, and through the functions" bad_records
part dynamodb-local "The stores' contracts on the official DynamoDB Local" dynamodb_local
part fuzzers "Fuzzers, two minutes a target" fuzzers

if [ "${#failed[@]}" -gt 0 ]; then
  printf '\nproof: does not hold: %s' "${failed[@]}" >&2
  printf '\n' >&2
  exit 1
fi
skips_allowed "$TRIAD_SKIPS" || exit 3
