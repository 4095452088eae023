#!/usr/bin/env bash
# Computes the figures in the pages again, and compares them.
#
#   tests/figures.sh              those that take a minute or two
#   tests/figures.sh --all        all of them: hours
#   tests/figures.sh NAME…        only these
#   tests/figures.sh --list       the names, and the commands that compute them
#
# In its page each figure follows a mark, `<!-- figure: NAME -->`. Counts must be equal; times and rates depend on
# the machine, and may differ by the stated fraction. Differences are printed. Exit code 1 if a figure that takes a
# minute or two differs; the others may be of an earlier version.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tests/figures.py "$@"
