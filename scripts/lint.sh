#!/usr/bin/env bash
# Runs clang-tidy, with the checks of .clang-tidy, over every header (each through its one-line program) and test.
#
#   scripts/lint.sh [REGEX]     only sources whose path matches, such as ops/softmax or tests/unit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

if [[ ${1:-} == -h || ${1:-} == --help ]]; then sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0; fi
[[ $# -le 1 && ${1:-} != -* ]] || { echo "usage: scripts/lint.sh [REGEX]" >&2; exit 2; }
pattern=${1:-.}

gradus_setup lint clang
# clang-tidy reads clang's command lines, so the clang preset is the one to take them from.
mkdir -p build/clang
if ! cmake --preset clang >build/clang/configure.log 2>&1; then
  cat build/clang/configure.log >&2
  echo "lint.sh: configuring failed" >&2
  exit 1
fi
# A source that several programs are made of is looked at once, as in the first of them.
mkdir -p build/clang/lint
awk '/^{/ { entry = "" } /^[{} ]/ { entry = entry $0 "\n" } /^ *"file"/ { file = $0 }
     /^}/ { if (!(file in seen)) { sub(/},?\n$/, "}", entry); printf "%s%s", (n++ ? ",\n" : "[\n"), entry } seen[file] = 1 }
     END { print "\n]" }' build/clang/compile_commands.json >build/clang/lint/compile_commands.json
sources=$(sed -n 's/^ *"file": "\(.*\.cpp\)",*$/\1/p' build/clang/lint/compile_commands.json | sort -u | grep -E -e "$pattern" || true)
[[ -n $sources ]] || { echo "lint.sh: no source matches '$pattern'" >&2; exit 2; }
echo "lint.sh: $(wc -l <<<"$sources") sources"
{ tr '\n' '\0' <<<"$sources" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p build/clang/lint; } 2>&1 |
  { grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter' || true; }
echo "lint.sh: clean"
