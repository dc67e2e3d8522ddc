#!/usr/bin/env bash
# check_lesson.sh PROGRAM REGEX [ARGUMENT...]: passes if the program, in an empty folder, exits with 0 and prints a line
# that matches.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: $0 PROGRAM REGEX [ARGUMENT...]" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
output=$("$1" "${@:3}" | tr -d '\r') ||
  { status=$?; printf '%s\n' "$output"; echo "$1 ended with $status" >&2; exit 1; }
printf '%s\n' "$output"
grep -qE -- "$2" <<<"$output" || { echo "no line matches: $2" >&2; exit 1; }
