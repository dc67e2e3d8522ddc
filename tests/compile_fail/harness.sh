#!/usr/bin/env bash
# harness.sh COMPILER: holds check.sh against cases whose outcome is known.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 1 ]] || { echo "usage: $0 COMPILER" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compiler=$1
family=g++
if "$compiler" --version | grep -qi clang; then family=clang++; fi
echo "-std=c++20" >"$work/flags.rsp"

failures=0
# outcome passes|fails DESCRIPTION LINE...: writes the lines as a case and checks it.
outcome() {
  local wanted=$1 description=$2 got=passes output
  shift 2
  printf '%s\n' "$@" >"$work/case.cpp"
  output=$(bash "$here/check.sh" "$family" "$compiler" "$work/case.cpp" "@$work/flags.rsp" "" "${twin:-twin}" 2>&1) ||
    got=fails
  if [[ $got != "$wanted" ]]; then
    printf '%s: the case %s and should not:\n%s\n' "$description" "$got" "$output"
    failures=1
  fi
}

mistake='template <int rows> void f() { static_assert(rows == 3, "rows must be 3"); }'
use=('#ifdef GRADUS_FAIL' 'void g() { f<4>(); }' '#else' 'void g() { f<3>(); }' '#endif')
outcome passes 'a mistake in a template, found' '// expect: rows must be 3' "$mistake" "${use[@]}"
outcome passes 'two expectations, both found' '// expect: rows must' '// expect: be 3' "$mistake" "${use[@]}"
outcome fails 'one of two expectations missing' '// expect: rows must be 3' '// expect: columns' "$mistake" "${use[@]}"
outcome fails 'a mistake that compiles' '// expect: rows' 'int g();'
outcome fails 'a twin that does not compile' '// expect: rows must be 3' "$mistake" 'void g() { f<4>(); }'
twin=no-twin outcome passes 'a twin that is not asked for' '// expect: rows must be 3' "$mistake" 'void g() { f<4>(); }'
outcome fails 'a case without expectations' "$mistake" "${use[@]}"
if [[ $family == g++ ]]; then
  many=('#ifdef GRADUS_FAIL' 'void g() { f<4>(), f<5>(), f<6>(), f<7>(); }' '#endif')
  outcome fails 'a message of more than 15 lines' '// expect: rows must be 3' "$mistake" "${many[@]}"
fi
outcome passes 'few lines where few are asked for' \
  '// expect: rows must be 3' '// expect-lines: 15' "$mistake" "${use[@]}"
outcome fails 'too many lines' '// expect: rows must be 3' '// expect-lines: 3' "$mistake" "${use[@]}"
outcome passes 'an expectation for this compiler' "// expect($family): rows must be 3" "$mistake" "${use[@]}"
outcome fails 'an expectation for another compiler only' '// expect(other): rows must be 3' "$mistake" "${use[@]}"
exit $failures
