#!/usr/bin/env bash
# check.sh WAY SOURCE BUILD WORK CMAKE COMPILER GENERATOR: builds and runs tests/package/WAY, a project that uses gradus
# by find_package (from a fresh install of BUILD), add_subdirectory or fetch_content.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 7 && -d $here/$1 ]] || {
  echo "usage: $0 find_package|add_subdirectory|fetch_content SOURCE BUILD WORK CMAKE COMPILER GENERATOR" >&2
  exit 2
}
way=$1 source=$2 build=$3 work=$4 cmake=$5 compiler=$6 generator=$7

rm -rf "$work"
mkdir -p "$work"
options=(-G "$generator" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_COMPILER=$compiler")
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if [[ $way == find_package ]]; then
  "$cmake" --install "$build" --prefix "$work/installed" >"$work/install.log"
  options+=("-DCMAKE_PREFIX_PATH=$work/installed")
else
  options+=("-DGRADUS_SOURCE=$source")
fi

"$cmake" -S "$here/$way" -B "$work/build" "${options[@]}"
"$cmake" --build "$work/build"
"$work/build/consumer"
"$work/build/files" "$work/folder.txt"
