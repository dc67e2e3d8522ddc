#!/usr/bin/env bash
# check.sh HEADER OBJECT: passes if the header's one-line program was compiled into OBJECT.
set -euo pipefail
[[ $# -eq 2 ]] || { echo "usage: $0 HEADER OBJECT" >&2; exit 2; }
if [[ ! -f $2 ]]; then
  echo "$1 does not compile on its own: see the build's messages"
  exit 1
fi
