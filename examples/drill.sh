#!/usr/bin/env bash
# A drill: what an operator sees and does when things go wrong, on one machine. It starts
# `triad dev` in memory, makes its services misbehave, and works through the consequences with
# the commands that an operator has. The output is Markdown; docs/tutorial/drill.md is one of its runs, and
# examples/drill_page.py holds another one against it.
#
# Usage: examples/drill.sh [path of the triad binary]
# Ends with exit code 0 if every order is finished or closed by hand.
set -euo pipefail
cd "$(dirname "$0")/.."

triad=$(realpath "${1:-target/release/triad}")
[ -x "$triad" ] || { echo "drill: $triad is missing: cargo build --release" >&2; exit 2; }
for tool in curl jq; do
  command -v "$tool" >/dev/null || { echo "drill: $tool is missing; install it first" >&2; exit 2; }
done
work=$(mktemp -d)
# The page must not show the name of the machine that it was made on.
export TRIAD_INSTANCE=drill
"$triad" dev --json --sweep-every 500ms >"$work/dev.log" 2>"$work/dev.err" &
dev=$!
trap 'kill $dev 2>/dev/null || true; wait $dev 2>/dev/null || true; rm -rf "$work"' EXIT

# Waits for a condition, at most a minute and a half.
until_true() {
  for _ in $(seq 180); do
    if "$@"; then return 0; fi
    sleep 0.5
  done
  echo "drill: waited in vain for: $*" >&2
  tail -5 "$work/dev.err" >&2
  exit 1
}
started() { kill -0 $dev && grep -q '"started"' "$work/dev.log"; }
until_true started
TRIAD_DATA=$(jq -r .triad_data <"$work/dev.log" | head -1)
service=$(jq -r .service <"$work/dev.log" | head -1)
export TRIAD_DATA USER=${USER:-operator}

count() { "$triad" list --state "$1" --limit 0 --json | jq -s '[.[] | select(.kind == "order")] | length'; }
at_rest() { [ $(($(count Pending) + $(count Processing) + $(count Compensating))) -eq 0 ]; }
deferred() { [ "$("$triad" list --state Processing --json | jq -s '[.[] | .steps[]? | select(.state == "deferred")] | length')" -ge 10 ]; }
breaker_is() { "$triad" downstreams --json | jq -se --arg a "$1" --arg s "$2" 'any(.[]; .downstream == $a and .record.breaker.state == $s)' >/dev/null; }
letters() { [ "$("$triad" dead-letters list --json | jq -s '[.[] | select(.kind != "summary")] | length')" -ge "$1" ]; }

# What the status counts, by state, is what is listed. It is not shown: it must be so at any time.
figures_agree() {
  local listed counted
  listed=$("$triad" list --limit 0 --json | jq -cs '[.[] | select(.kind == "order") | if .closed then "closed" else .state end] | group_by(.) | map({(.[0]): length}) | add // {}')
  counted=$({ "$triad" status --json || true; } | jq -c '.orders | with_entries(select(.value > 0))')
  jq -ne --argjson a "$listed" --argjson b "$counted" '$a == $b' >/dev/null
}

# Shows a command and what it says.
show() {
  printf '\n```console\n$ triad'
  printf ' %q' "$@" | sed "s/\\\\\([ *{}\":,]\)/\1/g"
  printf '\n'
  "$triad" "$@" 2>&1 | sed 's/[[:space:]]*$//' || true
  printf '```\n'
}
# Shows a command and the last lines of what it says: so many.
show_end() {
  local lines=$1
  shift
  printf '\n```console\n$ triad'
  printf ' %q' "$@" | sed "s/\\\\\([ *{}\":,]\)/\1/g"
  printf ' | tail -n %s\n' "$lines"
  { "$triad" "$@" 2>&1 || true; } | sed 's/[[:space:]]*$//' | tail -n "$lines"
  printf '```\n'
}
say() { printf '\n%s\n' "$*"; }
part() { printf '\n## %s\n' "$*"; }
# How the services misbehave from now on: JSON of plans by service.
services() { curl -fsS -X PUT "$service/_faults" -H 'content-type: application/json' -d "{\"services\": $1}" >/dev/null; }
submit() {
  for n in $(seq "$1" "$2"); do
    jq -nc --arg id "$n" '{order_id: $id, workflow: "order-fulfilment", details: {customerID: "HANAR", freight: 32.38, shipVia: 3, shipName: "Hanari Carnes", shipAddress: {city: "Rio de Janeiro", country: "Brazil"}, details: [{productID: 11, quantity: 12}]}}'
  done | "$triad" submit - >/dev/null
}

echo "# A drill"
say "Made by \`examples/drill.sh\`: one machine, the embedded engines, the workflow"
echo "\`examples/workflows/order-fulfilment.yaml\`. Every table below is what the command printed."

part "A service is down for a while, then back"
services '{"payment": {"down": true}}'
submit 1001 1020
until_true deferred
until_true figures_agree
say "The payment service answers nothing but 503 with \`Retry-After\`. Its circuit breaker has"
echo "opened, for all instances; 20 orders wait for its next probe. None of them has failed."
show downstreams
show get "$("$triad" list --state Processing --json | jq -r 'select(any(.steps[]?; .state == "deferred")) | .order_id' | head -1)"
services '{}'
until_true at_rest
until_true breaker_is payment closed
say "It is back. A probe found out, the breaker has closed, and the orders have gone on by"
echo "themselves."
show downstreams
show list --by-cause

part "A permanent failure past the point of no return"
services '{"notification": {"permanent": 1.0}}'
submit 1101 1110
until_true at_rest
say "The notification service refuses. The customer was to be told last, past the point of no"
echo "return: nothing is compensated, the orders stop in Error, and each has raised an alert."
show list --by-cause
show get 1101

part "A failing compensation"
services '{"notification": {"permanent": 1.0}, "carrier": {"permanent": 1.0}, "payment": {"compensation_permanent": 1.0}}'
submit 1201 1205
until_true at_rest
say "No carrier takes the parcel, so the orders are compensated; but the payment service refuses the"
echo "refunds. They are half compensated, and say so."
show list --by-cause
show get 1201
services '{"notification": {"permanent": 1.0}}'
say "Refunds work again. Four orders are tried again together; the fifth was refunded by hand"
echo "at the bank, and is closed with a reason."
show close 1205 --why 'refunded by hand, ticket 4711'
show retry-compensation --state CompensationFailed --yes --why 'refunds work again'
until_true at_rest
show list --by-cause
show_end 6 get 1201

part "A poison record"
printf '{"order_id": "1301", "workflow": "order-fulfilment", "details": {"customerID": \n' | "$triad" submit --raw - >/dev/null
submit 1302 1302
until_true letters 1
until_true at_rest
say "Somebody has sent half an order. It is in the dead-letter topic with its cause; the order"
echo "behind it was not held up."
show dead-letters list
id=$("$triad" dead-letters list --json | jq -r 'select(.id) | .id' | head -1)
show dead-letters show "$id"
jq -nc '{order_id: "1301", workflow: "order-fulfilment", details: {customerID: "HANAR", freight: 1, shipVia: 3, shipName: "Hanari Carnes", shipAddress: {city: "Rio", country: "Brazil"}, details: []}}' >"$work/mended.json"
say "It is mended and sent again to where it came from."
show dead-letters replay "$id" --value "$work/mended.json" --why 'the sender has mended it' | sed "s#$work/##g"
until_true "$triad" get 1301 >/dev/null
until_true at_rest
show dead-letters list

part "Bulk resubmission"
services '{}'
say "The notification service works again. First a dry run, then all orders of that cause."
show_end 2 resubmit --state Error --cause 'permanent/notify/*' --why 'the mail service is back'
show_end 1 resubmit --state Error --cause 'permanent/notify/*' --yes --rate 100 --why 'the mail service is back'
until_true at_rest
show_end 5 get 1101

until_true figures_agree

part "At the end"
show list --by-cause
say "Orders by state:"
printf '\n```\n'
"$triad" list --limit 0 --json | jq -r 'select(.kind == "order") | if .closed then "\(.state), closed by hand" else .state end' | sort | uniq -c
printf '```\n'
left=$("$triad" list --by-cause --json | jq -s '[.[] | select(.kind == "cause")] | length')
[ "$left" -eq 0 ] || { echo "drill: $left causes are left" >&2; exit 1; }
