#!/usr/bin/env bash
# check.sh WAY SOURCE BUILD WORK CMAKE COMPILER GENERATOR: builds and runs tests/package/WAY, a project that uses gradus
# by find_package (from a fresh install of BUILD), add_subdirectory or fetch_content; or, as pkg_config, one program
# with the flags that pkg-config says of such an install.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 7 && ($1 == pkg_config || -d $here/$1) ]] || {
  echo "usage: $0 find_package|pkg_config|add_subdirectory|fetch_content SOURCE BUILD WORK CMAKE COMPILER GENERATOR" >&2
  exit 2
}
way=$1 source=$2 build=$3 work=$4 cmake=$5 compiler=$6 generator=$7

rm -rf "$work"
mkdir -p "$work"
options=(-G "$generator" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_COMPILER=$compiler")
launcher=$(command -v ccache || true)
if [[ -n $launcher ]]; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if [[ $way == find_package || $way == pkg_config ]]; then
  "$cmake" --install "$build" --prefix "$work/installed" >"$work/install.log"
  options+=("-DCMAKE_PREFIX_PATH=$work/installed")
else
  options+=("-DGRADUS_SOURCE=$source")
fi

if [[ $way == pkg_config ]]; then
  PKG_CONFIG_PATH=$(dirname "$(find "$work/installed" -name gradus.pc)")
  export PKG_CONFIG_PATH
  read -ra flags <<<"$(pkg-config --cflags gradus)"
  read -ra libraries <<<"$(pkg-config --libs gradus)"
  $launcher "$compiler" -std=c++20 "${flags[@]}" -c "$here/main.cpp" -o "$work/consumer.o"
  "$compiler" "$work/consumer.o" -o "$work/consumer" "${libraries[@]}"
  "$work/consumer"
  exit
fi
"$cmake" -S "$here/$way" -B "$work/build" "${options[@]}"
"$cmake" --build "$work/build"
"$work/build/consumer"
"$work/build/files" "$work/folder.txt"
