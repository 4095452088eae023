#!/usr/bin/env bash
# The figures in the pages, made again: what each page says, and what it is now.
#
#   tests/figures.sh              those that are made in a minute or two
#   tests/figures.sh --all        all of them: hours
#   tests/figures.sh NAME…        these alone
#   tests/figures.sh --list       the names, and the commands that make them
#
# Each figure stands behind a mark in its page, `<!-- figure: NAME -->`. Counts must be the same; times and
# rates, which are the machine's, may differ by the part that is stated. What differs is told. Ends with 1 where it is of a
# figure that is made in a minute or two; the others may be of an earlier version.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tests/figures.py "$@"
