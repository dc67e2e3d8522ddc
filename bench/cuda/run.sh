#!/usr/bin/env bash
# Runs bench_cuda, which writes its rows to $GRADUS_BENCH_JSON. Without a GPU, or a command in GRADUS_CUDA_LAUNCHER that
# stands in for one, it says so and exits with 77.
set -euo pipefail
program=$(find build/release/bench -type f -name bench_cuda -perm -u+x | head -n 1)
[[ -n $program ]] || { echo "bench/cuda: bench_cuda was not built: is nvcc there?" >&2; exit 77; }
# shellcheck disable=SC2086  # a command and its arguments
${GRADUS_CUDA_LAUNCHER:-} "$program" "$@"
