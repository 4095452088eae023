#!/usr/bin/env bash
# Checks that a test notices a wrong value of each constant: each named number of shared/kernel/core and
# shared/kernel/runtime, and each default of their settings, is changed twice: minus and plus one, or a span halved
# and doubled.
#
#   tests/constants.sh              all constants
#   tests/constants.sh NAME…        only these, such as core/window/MOST
#   tests/constants.sh --list       lists the constants, and those that cannot be switched
#   tests/constants.sh --apply      only makes the scratch copy, target/constants
#
# In a scratch copy every constant's value can be changed by an environment variable, so one build serves all
# mutants. For each mutant the tests of triad-core, triad-runtime and triad-operator run, and if none fails, the
# simulated world. A mutant that neither notices needs a reason in tests/testkit/mutants/constants.txt; a reason
# for a noticed one is stale. TRIAD_SEEDS sets the number of seeds (3,000). Exit code 0 if every constant is
# noticed or explained and no reason is stale.
set -euo pipefail
cd "$(dirname "$0")/.."
# One run at a time: each run replaces the scratch copy, which the tests of another run would be reading.
mkdir -p target
exec 9> target/constants.lock
flock --nonblock 9 || { echo "constants: another run of this script works on target/constants" >&2; exit 2; }
exec python3 tests/testkit/mutants/constants.py "$@"
