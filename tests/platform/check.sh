#!/usr/bin/env bash
# check.sh COMPILER: every header compiles alone where the system is macOS, by a stand-in (apple.hpp) and libc++.
set -euo pipefail
compiler=${1:?usage: check.sh COMPILER}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# As on macOS, there is no <xlocale.h> of glibc's; here <locale.h> declares the same.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo '#include <locale.h>' >"$scratch/xlocale.h"
failures=0 headers=0
while read -r header; do
  headers=$((headers + 1))
  echo "#include <gradus/$header>" >"$scratch/header.cpp"
  "$compiler" -stdlib=libc++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Wno-builtin-macro-redefined \
    -include tests/platform/apple.hpp -isystem "$scratch" -Iinclude "$scratch/header.cpp" ||
    { echo "$header: does not compile on macOS" >&2; failures=$((failures + 1)); }
done < <(cd include/gradus && find . -name '*.hpp' | sed 's|^\./||' | sort |
  grep -vE '(^|/)(cuda|mpi_|nccl_)|^gpu/|/cuda/|^distributed|^interop/eigen|^run/mpi_team' )
echo "$headers headers, $failures do not compile"
[[ $failures -eq 0 ]]
