#!/usr/bin/env bash
# check_size.sh STRIP LIBRARY MOST_BYTES: passes if the library, stripped, has at most so many bytes.
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: $0 STRIP LIBRARY MOST_BYTES" >&2; exit 2; }
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
"$1" -o "$stripped" "$2"
bytes=$(stat -c %s "$stripped")
echo "$(basename "$2"), stripped: $bytes bytes; at most $3"
[[ $bytes -le $3 ]]
