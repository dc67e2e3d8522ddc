#!/usr/bin/env bash
# Makes the reference from the /// comments: build/docs/html/index.html. A malformed comment is an error.
#
#   scripts/docs.sh
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0; fi
[[ $# -eq 0 ]] || { echo "docs.sh: takes no arguments" >&2; exit 2; }
gradus_setup docs
rm -rf build/docs
mkdir -p build/docs
if ! doxygen docs/Doxyfile >build/docs/doxygen.log 2>build/docs/warnings.log || [[ -s build/docs/warnings.log ]]; then
  cat build/docs/warnings.log >&2
  echo "docs.sh: see the warnings above" >&2
  exit 1
fi
echo "docs.sh: build/docs/html/index.html"
