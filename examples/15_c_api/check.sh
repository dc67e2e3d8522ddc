#!/usr/bin/env bash
# check.sh CPP_PROGRAM COMMAND...: passes if the command, in an empty folder, learns, and all its losses have the bits
# of the C++ program's. 77 if the command ends with it: it was skipped.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: $0 CPP_PROGRAM COMMAND..." >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
output=$("${@:2}") || { status=$?; printf '%s\n' "$output"; exit "$status"; }
printf '%s\n' "$output"
losses() { grep -oE '^step [0-9]+ loss [-+.0-9a-fx]+p[-+0-9]+'; }
diff <("$1" | losses) <(losses <<<"$output") || { echo "the losses are not those of the C++ program" >&2; exit 1; }
grep -qE '^accuracy (0\.9[5-9]|1\.0)' <<<"$output" || { echo "it has not learned" >&2; exit 1; }
