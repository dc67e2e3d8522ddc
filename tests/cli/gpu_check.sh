#!/usr/bin/env bash
# gpu_check.sh SOURCE WORK: scripts/gpu-check.sh in each of its modes, with stand-ins for compilers, GPU, profiler and
# sanitizer: every program that it names is built from sources that are there, and every step runs.
set -euo pipefail
[[ $# -eq 2 ]] || { echo "usage: $0 SOURCE WORK" >&2; exit 2; }
source=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"/{toolkit/bin,bin,checkout}
cd "$work"
source "$here/support.sh"

# A compiler that fails where a source is missing, and makes programs that say what programs of their name would.
cat >toolkit/bin/nvcc <<'EOS'
#!/usr/bin/env bash
out="" previous=""
for argument in "$@"; do
  case $previous in
    -o) out=$argument ;;
    -c) [[ -f $argument ]] || { echo "no source $argument" >&2; exit 1; } ;;
    -MF) depfile=$argument ;;
  esac
  previous=$argument
done
if [[ -n ${depfile:-} ]]; then
  echo "$out:" >"$depfile"
  : >"$out"
  exit
fi
cat >"$out" <<'EOP'
#!/usr/bin/env bash
case ${0##*/} in
  gpt_step*) echo "first loss ${STANDIN_LOSS:-10.9655}" ;;
  test_*) [[ ${0##*/} != "${STANDIN_BROKEN:-}" ]] || { echo "a kernel failed"; exit 1; } ;;
  gpt_train)
    while [[ $# -gt 1 ]]; do
      if [[ $1 == --out || $1 == --resume ]]; then
        mkdir -p "$2"
        echo '{"step": 60, "loss": 1.5, "tokens_per_second": 10}' >"$2/log.jsonl"
        echo weights >"$2/model.safetensors"
      fi
      shift
    done ;;
esac
echo "[doctest] test cases: 1 | 1 passed"
EOP
chmod +x "$out"
EOS
cp toolkit/bin/nvcc bin/g++
printf '#!/bin/sh\necho "A GPU, 1.0, 80000 MiB"\n' >bin/nvidia-smi
printf '#!/bin/sh\necho "\\"1\\",\\"2\\",\\"3\\",\\"4\\",\\"void k<int>(int)\\",\\"gpu__time_duration.sum\\",\\"1000\\""\n' >bin/ncu
printf '#!/bin/sh\nfor a; do case $a in */test_*) exec "$a" ;; esac; done\nexit 1\n' >bin/compute-sanitizer
printf '#!/bin/sh\nexit 1\n' >bin/python3  # no PyTorch
chmod +x toolkit/bin/nvcc bin/*
# What the script reads, in a folder of its own, for it writes beside itself.
cp -r "$source/scripts" checkout/
for folder in include tests examples bench docs README.md; do ln -s "$source/$folder" checkout/; done
export PATH=$work/bin:$work/toolkit/bin:$PATH
check=(env OUT="$work/results" "$work/checkout/scripts/gpu-check.sh")

succeeds "${check[@]}" --build
for test in "$source"/tests/cuda/*.cu; do
  name=$(basename "$test" .cu)
  [[ -x checkout/build/gpu-check/test_$name || $name == nccl* ]] || wrong "--build: no program of $name"
done
succeeds "${check[@]}" --no-torch
has out '^build  *ok'
for step in "test matmul" "example cuda_mlp" "first loss: 10.9655 on the CPU" "GPT-2 124M, batch 16" \
  "kernels by time .ncu." bench "racecheck of attention" "memcheck of matmul"; do
  has out "^$step  *ok"
done
has out 'k  *1  *1.0'
succeeds "${check[@]}"
succeeds "${check[@]}" --collect
succeeds "${check[@]}" --trainer
has out 'the same bits  *yes'
# What is wrong is said, and does not end the rest.
fails() { ! "$@" >out 2>err </dev/null || wrong "status 0: $*"; }
fails env STANDIN_LOSS=10.9 "${check[@]}" --no-torch
has out '^first loss: 10.9655 on the CPU  *FAILED'
fails env STANDIN_BROKEN=test_matmul "${check[@]}" --no-torch
has out '^test matmul  *FAILED'
has out '^test rows  *ok'
fails "${check[@]}" --ladder  # run.py is Python
has out '^build of the ladder  *ok'
refuses 2 'unknown argument' "${check[@]}" --banana
[[ $failures -eq 0 ]]
