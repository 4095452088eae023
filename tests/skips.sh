# Reports what a run skips; other scripts source this file.
#
# `skipped NAME WHY` prints that something is not checked and, if TRIAD_SKIPS names a file, adds a line to it;
# tests/src/skipped.rs does the same for tests in Rust. `skips_allowed FILE` lists what a run has skipped, and fails
# if tests/skips-allowed.txt does not allow one of them.

skipped() {
  printf '\n== SKIPPED: %s: %s\n' "$1" "$2" >&2
  if [ -n "${TRIAD_SKIPS:-}" ]; then printf '%s\t%s\n' "$1" "$2" >> "$TRIAD_SKIPS"; fi
}

# Runs a command whose exit code 3 means that it has skipped something. It fails if nothing was reported as skipped.
may_skip() {
  local before status=0
  before=$(wc -l < "$TRIAD_SKIPS")
  "$@" || status=$?
  if [ "$status" = 3 ]; then
    [ "$(wc -l < "$TRIAD_SKIPS")" -gt "$before" ] && return 0
    echo "$1 ended with 3, and has not said what it left out" >&2
    status=1
  fi
  return "$status"
}

skips_allowed() {
  local name why reason all=yes
  [ -s "$1" ] || return 0
  printf '\n== NOT CHECKED\n'
  while IFS=$'\t' read -r name why; do
    reason=$(sed -n "s/^$name = //p" tests/skips-allowed.txt)
    if [ -n "$reason" ]; then
      printf '  %s: %s (may be left out: %s)\n' "$name" "$why" "$reason"
    else
      printf '  %s: %s. CI MUST CHECK IT.\n' "$name" "$why"
      all=no
    fi
  done < <(sort -u "$1")
  [ "$all" = yes ]
}
