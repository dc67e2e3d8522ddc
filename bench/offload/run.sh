#!/usr/bin/env bash
# Runs bench_offload, which writes its rows to $GRADUS_BENCH_JSON: run.sh [FOLDER [STEPS]]. The folder, on a disk, is
# build/bench unless it is given.
set -euo pipefail
program=$(find build/release/bench -type f -name bench_offload -perm -u+x | head -n 1)
[[ -n $program ]] || { echo "bench/offload: bench_offload was not built" >&2; exit 1; }
"$program" "${1:-build/bench}" "${@:2}"
