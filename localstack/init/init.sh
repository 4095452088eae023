#!/bin/sh
# Makes the tables and topics of an installation, with the names of the templates, and publishes the
# workflows. May be run again.
#   TRIAD_BROKERS       Kafka                      AWS_ENDPOINT_URL   the emulator
#   TRIAD_PREFIX  default: triad-            TRIAD_INIT_AGENTS  default: inventory,payment,carrier
#   TRIAD_WORKFLOWS     default: /workflows
set -eu
export TRIAD_PREFIX="${TRIAD_PREFIX:-triad-}"
agents="${TRIAD_INIT_AGENTS:-inventory,payment,carrier}"
triad init --agents "$agents" --partitions 4
triad publish --agents "$agents" "${TRIAD_WORKFLOWS:-/workflows}"/three-steps.yaml
