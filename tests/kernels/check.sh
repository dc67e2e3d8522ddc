#!/usr/bin/env bash
# Compiles operations at one batch size and at three, and compares the kernels in the two object files.
#
#   check.sh COMPILER INCLUDE
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=$(command -v ccache || true)
# Functions of cpu_kit, none of them inlined. full() and its like are of a shape.
kernels() {
  $launcher "$1" -std=c++20 -O0 "${@:3}" -I"$2" -c "$here/ops.cpp" -o "$work/ops.o"
  nm -C "$work/ops.o" | grep -i ' [tw] .*gradus::cpu_kit::' | sed 's/^[0-9a-f ]*[tTwW] //' |
    grep -v 'gradus::full' | sort -u
}
# For two processors: shapes may suit the registers of one alone.
processors=("")
if [[ $("$1" -dumpmachine) == x86_64* ]]; then
  processors=(-march=x86-64-v3 "-march=x86-64-v4 -mavx512vbmi -mavx512bf16")
fi
for processor in "${processors[@]}"; do
  read -ra flags <<<"$processor"
  kernels "$1" "$2" ${flags[@]+"${flags[@]}"} >"$work/one"
  kernels "$1" "$2" ${flags[@]+"${flags[@]}"} -DBATCHES >"$work/three"
  if ! grep -q norm_rows "$work/one"; then
    echo "no kernels found: has norm_rows another name?"
    exit 1
  fi
  if ! diff "$work/one" "$work/three" >"$work/diff"; then
    echo "kernels that only a program of several batch sizes has (>), $processor:"
    cut -c1-300 "$work/diff"
    exit 1
  fi
  echo "$(wc -l <"$work/one") kernels, whatever the batch size $processor"
done
