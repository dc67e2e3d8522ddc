#!/usr/bin/env bash
# architecture.sh NVCC INCLUDE: an older GPU's architecture is refused in one sentence.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include <gradus/cuda.hpp>' >"$work/old.cu"
if "$1" -std=c++20 --expt-relaxed-constexpr -DGRADUS_WITH_CUDA=1 -I"$2" -arch=sm_75 \
  -c "$work/old.cu" -o "$work/old.o" >"$work/out" 2>&1; then
  echo "a program for sm_75 compiles" >&2
  exit 1
fi
grep -q 'gradus needs a GPU of compute capability 8.0 (A100) or more: compile for sm_80 or later' "$work/out" ||
  { head -n 20 "$work/out" >&2; exit 1; }
