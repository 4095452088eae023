#!/usr/bin/env bash
# The figures in the pages, made again: what each page says, and what it is now.
#
#   tests/figures.sh              those that are made in a minute or two
#   tests/figures.sh --all        all of them: hours
#   tests/figures.sh NAME…        these alone
#   tests/figures.sh --list       the names, and the commands that make them
#
# Each figure stands behind a mark in its page, `<!-- figure: NAME -->`. Counts must be the same; times and
# rates, which are the machine's, may differ by the part that is stated. Ends with 1 where a count differs,
# where a time differs by more, or where a page or a command does not say a number any more.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 tests/figures.py "$@"
