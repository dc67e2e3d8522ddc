#!/usr/bin/env bash
# check.sh FAMILY COMPILER CASE @FLAGS PRECOMPILED TWIN: passes if CASE compiles (unless TWIN is no-twin), does not
# compile with -DGRADUS_FAIL, and the compiler then says what the case's `// expect:` lines ask for, g++ in at most 15
# lines, and each compiler in at most N lines where the case says `// expect-lines: N`. FAMILY is g++ or clang++.
# PRECOMPILED is the .gch of a header beside it, or '' to do without.
set -euo pipefail
[[ $# -eq 6 && -f $3 ]] || {
  echo "usage: $0 g++|clang++ COMPILER CASE.cpp @FLAGS PRECOMPILED.hpp.gch twin|no-twin" >&2
  exit 2
}
family=$1 compiler=$2 case=$3 flags=$4 precompiled=$5 twin=$6

arguments=("$flags" -fsyntax-only -fmessage-length=0 -fdiagnostics-color=never -w)
if [[ -f $precompiled ]]; then
  if [[ $family == clang++ ]]; then
    arguments+=(-include-pch "$precompiled")
  else
    arguments+=(-include "${precompiled%.gch}")
  fi
fi

# Lines for this compiler: `// expect: REGEX` and `// expect(FAMILY): REGEX`.
wanted=$(sed -nE -e 's|^[[:space:]]*// expect: ?(.*)$|\1|p' \
  -e "s|^[[:space:]]*// expect\(${family//+/\\+}\): ?(.*)$|\1|p" "$case")
mapfile -t expectations <<<"$wanted"
if [[ -z $wanted ]]; then
  echo "$case: no '// expect: REGEX' line for $family: say what the message must contain"
  exit 1
fi

if [[ $twin == twin ]] && ! output=$("$compiler" "${arguments[@]}" "$case" 2>&1); then
  printf '%s: the twin (without GRADUS_FAIL) must compile with %s, and does not:\n%s\n' "$case" "$family" "$output"
  exit 1
fi
if output=$("$compiler" "${arguments[@]}" -DGRADUS_FAIL "$case" 2>&1); then
  echo "$case: with GRADUS_FAIL it must not compile with $family, and does"
  exit 1
fi
if grep -qiE 'internal compiler error|PLEASE submit a bug report' <<<"$output"; then
  printf '%s: %s crashed:\n%s\n' "$case" "$family" "$output"
  exit 1
fi
failed=0
for expectation in "${expectations[@]}"; do
  if ! grep -qE -e "$expectation" <<<"$output"; then
    echo "$case: $family does not say: $expectation"
    failed=1
  fi
done
lines=$(grep -vcE '^In file included from .*/all\.hpp:' <<<"$output" || true)  # users have no precompiled header
enough=$(sed -nE 's|^// expect-lines: ([0-9]+)$|\1|p' "$case")
if [[ -z $enough && $family == g++ ]]; then enough=15; fi
if [[ -n $enough && $lines -gt $enough ]]; then
  echo "$case: $family says it in $lines lines; $enough are enough"
  failed=1
fi
if [[ $failed -ne 0 ]]; then
  printf 'It says:\n%s\n' "$output"
  exit 1
fi
