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
# outcome passes|fails DESCRIPTION LINE...: writes the lines as a file of cases and checks it.
outcome() {
  local wanted=$1 description=$2 got=passes output
  shift 2
  printf '%s\n' 'template <int rows> void f() { static_assert(rows == 3, "rows must be 3"); }' "$@" >"$work/case.cpp"
  output=$(bash "$here/check.sh" "$family" "$compiler" "$work/case.cpp" "@$work/flags.rsp" "" "${twin:-twin}" 2>&1) ||
    got=fails
  if [[ $got != "$wanted" ]]; then
    printf '%s: the file %s and should not:\n%s\n' "$description" "$got" "$output"
    failures=1
  fi
}

use=('void g() { f<4>(); }' '// twin' 'void g() { f<3>(); }')
one=('// case: one' '// expect: rows must be 3' "${use[@]}")
outcome passes 'a mistake in a template, found' "${one[@]}"
outcome passes 'two expectations, both found' '// case: one' '// expect: rows must' '// expect: be 3' "${use[@]}"
outcome fails 'one of two expectations missing' \
  '// case: one' '// expect: rows must be 3' '// expect: columns' "${use[@]}"
outcome passes 'two cases' "${one[@]}" '// case: two' '// expect: rows must be 3' 'void g() { f<5>(); }' '// twin'
outcome fails 'the message of another case' \
  "${one[@]}" '// case: two' '// expect: rows must be 3' 'int g() { return x; }'
outcome fails 'a mistake that compiles beside one that does not' \
  "${one[@]}" '// case: two' '// expect: rows must be 3' 'int g();'
outcome passes 'what mistake and twin share' '// case: one' '// expect: rows must be 3' 'constexpr int few = 3;' \
  '// mistake' 'void g() { f<few + 1>(); }' '// twin' 'void g() { f<few>(); }'
outcome fails 'a mistake that compiles' '// case: one' '// expect: rows' 'int g();'
outcome fails 'a twin that does not compile' \
  '// case: one' '// expect: rows must be 3' "${use[@]}" 'void h() { f<4>(); }'
twin=no-twin outcome passes 'a twin that is not asked for' \
  '// case: one' '// expect: rows must be 3' "${use[@]}" 'void h() { f<4>(); }'
outcome fails 'a case without expectations' '// case: one' "${use[@]}"
if [[ $family == g++ ]]; then
  outcome fails 'a message of more than 15 lines' \
    '// case: one' '// expect: rows must be 3' 'void g() { f<4>(), f<5>(), f<6>(), f<7>(); }'
fi
outcome passes 'few lines where few are asked for' '// case: one' '// expect: rows must be 3' '// expect-lines: 15' \
  "${use[@]}"
outcome fails 'too many lines' '// case: one' '// expect: rows must be 3' '// expect-lines: 3' "${use[@]}"
outcome passes 'an expectation for this compiler' '// case: one' "// expect($family): rows must be 3" "${use[@]}"
outcome fails 'an expectation for another compiler only' '// case: one' '// expect(other): rows must be 3' "${use[@]}"
exit $failures
