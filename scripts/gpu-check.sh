#!/usr/bin/env bash
# What has to be seen on a GPU, in three calls of less than eight minutes each, with nothing to compile there: half an
# hour of a machine that starts anew for each.
#
#   scripts/gpu-check.sh --pack [CMAKE_ARGUMENT...]
#                                 on a machine with nvcc, and no GPU: builds the tests, examples, benchmarks and the
#                                 trainer into build/gpu-pack.tar.xz, of at most PACK_MIB (40), for an H100 or H200.
#                                 GPU_ARCH=-gencode=arch=compute_80,code=sm_80 is for another GPU; GPU_JOBS compilers at
#                                 a time; -DGRADUS_CUDNN_INCLUDE_DIR=... and -DGRADUS_CUDNN_FRONTEND_INCLUDE_DIR=... for
#                                 cuDNN's attention
#   scripts/gpu-check.sh --call a|b|c [--seconds S] [--plan]
#                                 on the machine with the GPU, from this checkout with that archive in build/, which git
#                                 ignores, for 440 seconds unless S are given; --plan only prints the steps.
#                                 a: tests, first losses, GPT-2 124M by 16 sequences, kernel by kernel, rates of memory
#                                 b: products by every algorithm of cuBLASLt, GPT-2 by 64 sequences beside PyTorch
#                                 c: the trainer, killed and resumed; compute-sanitizer; the ladder; BERT-large
#   scripts/gpu-check.sh --page RESULT.json...   merges the results of calls whose machines kept nothing
#
# Results are in ${OUT:-build/gpu}: gpu-check.json, gpu-check.md, and logs of each call. A call needs bash, Python 3.8,
# the driver and cuBLASLt, and uses PyTorch, ncu and compute-sanitizer where they are there. GRADUS_CUDA_LAUNCHER may
# name what starts programs where there is no GPU.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"
out=${OUT:-$root/build/gpu}
mode=${1---help}
[[ $# -eq 0 ]] || shift
case $mode in
  --pack) exec bash "$root/scripts/gpu_check/pack.sh" "$@" ;;
  --call)
    [[ ${1:-} =~ ^[abc]$ ]] || { gradus_complain "gpu-check.sh: --call takes a, b or c, not '${1:-}'"; exit 2; }
    exec python3 "$root/scripts/gpu_check/call.py" "$1" "$out" "${@:2}" ;;
  --page)
    [[ $# -gt 0 ]] || { gradus_complain "gpu-check.sh: --page takes the gpu-check.json of calls"; exit 2; }
    exec python3 "$root/scripts/gpu_check/page.py" "$out" "$@" ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" ;;
  *) gradus_complain "gpu-check.sh: unknown argument '$mode'; --help lists what there is"; exit 2 ;;
esac
