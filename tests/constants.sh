#!/usr/bin/env bash
# Is every constant noticed? Each number of shared/kernel/core and shared/kernel/runtime that has a name, and each
# default of their settings, is made wrong twice: one less and one more, a span half and double.
#
#   tests/constants.sh              all of them
#   tests/constants.sh NAME…        these alone, such as core/window/MOST
#   tests/constants.sh --list       says which there are, and which cannot be switched
#   tests/constants.sh --apply      makes the scratch copy, target/constants, and stops there
#
# In a scratch copy every use of a constant asks the environment for its value, so that one build
# serves all mutants. Each mutant is given to the tests of triad-core, triad-runtime and
# triad-operator, and if none fails to the simulated world. One that neither notices needs a reason in
# tests/testkit/mutants/constants.txt; a reason for one that is noticed is stale. Set TRIAD_SEEDS for other
# than 3,000 seeds. Ends with 0 if every constant is noticed or explained, and no reason is stale.
set -euo pipefail
cd "$(dirname "$0")/.."
# One at a time: each makes the scratch copy anew, which the tests of another one read.
mkdir -p target
exec 9> target/constants.lock
flock --nonblock 9 || { echo "constants: another run of this script works on target/constants" >&2; exit 2; }
exec python3 tests/testkit/mutants/constants.py "$@"
