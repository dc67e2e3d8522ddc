#!/usr/bin/env bash
# check.sh FAMILY COMPILER INCLUDE_DIR: what users' own flags make of the headers. FAMILY is g++ or clang++.
# With many warnings as errors a program compiles, for several processors; behind the macros of other libraries and in
# the standard library's debug mode all headers do; flags that cannot work are refused in a line.
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: $0 g++|clang++ COMPILER INCLUDE_DIR" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
family=$1 compiler=$2 include=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() { printf '%s\n' "$*"; failed=1; }
launcher=$(command -v ccache || true)

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
if [[ $family == g++ ]]; then warnings+=(-Wpsabi); fi
accepts() {
  if ! $launcher "$compiler" -std=c++20 -I "$include" "${warnings[@]}" "$@" -c "$here/user.cpp" -o "$work/user.o" \
    >"$work/said" 2>&1; then
    complain "$family $*: a program does not compile without warnings:"
    head -n 20 "$work/said"
  elif [[ -s $work/said ]]; then
    complain "$family $*: the headers bring remarks with them:"
    head -n 20 "$work/said"
  fi
}
# refuses TEXT FLAGS...: the compiler says TEXT, and little else.
refuses() {
  local text=$1
  shift
  if "$compiler" -I "$include" "$@" -fsyntax-only "$here/user.cpp" >"$work/said" 2>&1; then
    complain "$family $*: must be refused"
  elif ! grep -qF -- "$text" "$work/said" || [[ $(grep -c 'error:' "$work/said") -gt 2 ]]; then
    complain "$family $*: must be refused in a line that says '$text'. It says:"
    head -n 20 "$work/said"
  fi
}

accepts -O2
accepts -O0 -fno-rtti
if [[ $("$compiler" -dumpmachine) == x86_64* ]]; then
  accepts -O2 -mavx2
  accepts -O3 -march=x86-64-v3
  accepts -O2 -march=sapphirerapids
fi
# All headers but those that need another library or its compiler.
(cd "$include" && find gradus -name '*.hpp' | grep -vE 'cuda|nccl|/gpu/|/mpi_|eigen' | sort) |
  sed 's/.*/#include <&>/' >"$work/all.cpp"
echo "#include \"$here/user.cpp\"" >>"$work/all.cpp"
reads() {
  if ! "$compiler" -std=gnu++20 -I "$include" "$@" -fsyntax-only "$work/all.cpp" >"$work/said" 2>&1; then
    complain "$family $*: the headers do not compile:"
    head -n 20 "$work/said"
  fi
}
reads -D_GLIBCXX_DEBUG -include "$here/macros.hpp"
echo '#include <gradus/run/run.hpp>' >"$work/run.cpp"

refuses 'gradus needs C++20: compile with -std=c++20' -std=c++17
refuses 'gradus needs exceptions' -std=c++20 -fno-exceptions
refuses 'gradus/run/run.hpp needs the types of exceptions' -std=c++20 -fno-rtti -include "$work/run.cpp"
refuses 'gradus needs IEEE arithmetic' -std=c++20 -O2 -ffast-math
refuses 'gradus needs IEEE arithmetic' -std=c++20 -Ofast
refuses 'gradus needs IEEE arithmetic' -std=c++20 -ffinite-math-only
if [[ $family == g++ ]]; then refuses 'gradus needs IEEE arithmetic' -std=c++20 -O2 -funsafe-math-optimizations; fi
exit "$failed"
