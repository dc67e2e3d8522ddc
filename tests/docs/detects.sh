#!/usr/bin/env bash
# The snippet check is itself checked: a small tree in order passes, and each way of going out of date is noticed and
# named.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

put() { local file=$tree/$1; shift; mkdir -p "$(dirname "$file")"; printf '%s\n' "$@" >"$file"; }
fresh() {
  rm -rf "${tree:?}"/*
  put tests/docs/a.cpp 'int main() {' '  // [sum]' '  int a = 1;' '' '  int b = 2;' '  // [/sum]' '  print(a, b);' \
    '  // [sum]' '  return a + b;' '  // [/sum]' '}'
  put include/b.hpp 'struct b {' '  int x;' '  int y;' '};'
  put tests/compile_fail/cases/sums.cpp '// case: sub' '// expect: no' '// case: add' '// expect: a \+ b: rows' \
    '// expect(g++): note' 'int f();'
  put docs/guide/page.md '# Page' '[up](../../README.md#title), [out](https://example.org), `[](missing)`' \
    '<!-- excerpt: include/b.hpp -->' '```cpp' 'int x;' 'int y;' '```' \
    '<!-- message: add g++ -->' '```text' 'error: a + b: rows' 'note: 1' '```'
  put README.md '# Title' '' '<!-- snippet: a.cpp#sum -->' '```cpp' 'int a = 1;' '' 'int b = 2;' 'return a + b;' '```' \
    '[guide](docs/guide/page.md)' '```sh' '[not a link](nowhere)' '```'
}
failures=0
rejects() {  # PATTERN DESCRIPTION: the check fails and says PATTERN
  local output
  if output=$(bash "$here/check_snippets.sh" "$tree" 2>&1); then
    echo "$2: not noticed"; failures=1
  elif ! grep -qE -e "$1" <<<"$output"; then
    echo "$2: the check does not say '$1': $output"; failures=1
  fi
}
change() { sed "$2" "$tree/$1" >"$tree/changed" && mv "$tree/changed" "$tree/$1"; }

fresh; bash "$here/check_snippets.sh" "$tree" >/dev/null || { echo "a tree in order: should pass"; failures=1; }
fresh; change tests/docs/a.cpp 's/int b = 2/int b = 3/'; rejects '  \+ int b = 3;' "a program that changed"
bash "$here/check_snippets.sh" --fix "$tree" >/dev/null && bash "$here/check_snippets.sh" "$tree" >/dev/null ||
  { echo "--fix: the page should be in order afterwards"; failures=1; }
fresh; change README.md 's/^int a = 1;/int  a = 1;/'
rejects 'README.md:4: the block differs from region .sum.' "a page that changed"
fresh; change README.md 's/#sum/#total/';                rejects "no region 'total'" "a region that is not there"
fresh; change README.md 's/a.cpp#/c.cpp#/';              rejects 'no tests/docs/c.cpp' "a program that is not there"
fresh; change README.md '/snippet/d'
rejects 'README.md:3: a C\+\+ block without' "a block from nowhere"
fresh; change README.md 's/^```cpp//';                   rejects 'must be followed by a block' "a tag without a block"
fresh; change tests/docs/a.cpp '/\/sum/d';               rejects "no region 'sum'" "a region without an end"
fresh; change include/b.hpp 's/int y/long y/'
rejects 'page.md:4: include/b.hpp has no such lines' "an excerpt that changed"
fresh; change docs/guide/page.md 's/a + b/a - b/'
rejects 'does not contain what .*sums.cpp expects: a' "another message"
fresh; change docs/guide/page.md 's/^note/remark/';      rejects 'expects: note' "a message without one compiler's line"
fresh; change docs/guide/page.md 's/README/READYOU/'
rejects 'page.md:2: link to ../../READYOU.md' "a link to nothing"
fresh; change README.md 's/^```cpp/```const cpp/'
rejects 'README.md:4: no heading, block or tag' "a block that a formatter took for code"
fresh; change README.md 's/^# Title/#Title/'
rejects 'README.md:1: no heading, block or tag' "a heading that a formatter took for code"
fresh; change README.md 's/<!-- snippet/<!--snippet/'
rejects 'README.md:3: no heading, block or tag' "a tag that a formatter took for code"
exit $failures
