#!/usr/bin/env bash
# Formats the C++ and CUDA sources with clang-format 16.
#
#   scripts/format.sh [--check] [FILE...]     --check changes nothing and fails if something would change;
#                                             of the files that are given, those named *.hpp, *.ipp, *.cpp and *.cu;
#                                             without files: everything under include, tests, examples and bench
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: given check wrong
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

check=0 given=0
files=()
for argument in "$@"; do
  case $argument in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --check) check=1 ;;
    -*) echo "format.sh: unknown argument '$argument'; --check or files" >&2; exit 2 ;;
    *) [[ -f $argument ]] || { echo "format.sh: no file '$argument'" >&2; exit 2; }
       given=1
       if [[ $argument =~ \.(hpp|ipp|cpp|cu)$ ]]; then files+=("$argument"); fi ;;
  esac
done
gradus_setup format
if [[ ${#files[@]} -eq 0 && $given -eq 0 ]]; then
  found=$(find include tests examples bench -type f \
    \( -name '*.hpp' -o -name '*.ipp' -o -name '*.cpp' -o -name '*.cu' \) 2>/dev/null | sort || true)
  if [[ -n $found ]]; then mapfile -t files <<<"$found"; fi
fi
[[ ${#files[@]} -gt 0 ]] || { echo "format.sh: nothing to format"; exit 0; }

if [[ $check -eq 1 ]]; then
  # By comparison: --dry-run complains of the comments behind `namespace a::inline B`, which formatting leaves alone.
  wrong=0
  for file in "${files[@]}"; do
    if ! clang-format-16 "$file" | cmp -s - "$file"; then echo "$file: is not formatted" >&2; wrong=1; fi
  done
  if [[ $wrong -eq 1 ]]; then
    echo "format.sh: run scripts/format.sh on the files above" >&2
    exit 1
  fi
  echo "format.sh: ${#files[@]} files are formatted"
else
  clang-format-16 -i "${files[@]}"
  echo "format.sh: formatted ${#files[@]} files"
fi
