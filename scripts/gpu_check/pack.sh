#!/usr/bin/env bash
# pack.sh [CMAKE_ARGUMENT...]: builds what call.py runs on a machine with a GPU, and packs it as build/gpu-pack.tar.xz.
# Needs what the tests need, and nvcc; no GPU. The archive has the folder gpu-pack:
#
#   bin/       the programs, stripped: machine code for GPU_ARCH (sm_90a), and PTX for compute_80 that any launcher or
#              driver may take instead
#   lib/       libraries that the other machine may lack, such as the CUDA runtime; never cuBLASLt, which is larger than
#              the archive may be
#   programs   a line a program: its name, and "packed" or why it is not there
#
# Programs are listed from the most telling to the least. Where the archive would have more than PACK_MIB (40), the last
# are left out. Status 1 if one does not compile.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/gpu-check pack=build/gpu-pack
most=${PACK_MIB:-40}
[[ $most =~ ^[1-9][0-9]{0,4}$ ]] || { echo "gpu-check.sh: PACK_MIB must be a number of MiB" >&2; exit 2; }
[[ -n $(command -v nvcc) || -x /usr/local/cuda/bin/nvcc ]] || { echo "gpu-check.sh: no nvcc" >&2; exit 2; }

programs=(bench_cuda_gpt_step bench_cuda_gpt_step_16 cuda_{matmul,attention,rows,gpt,graph,memory} bench_cuda
  bench_cuda_products bench_cuda_gpt_step_64 bench_cuda_gpt_step_64_cudnn gpt_train gpt_sample)
for source in tests/cuda/*.cu; do  # those of several GPUs are for machines with several
  name=cuda_$(basename "$source" .cu)
  if [[ $name != cuda_nccl* && " ${programs[*]} " != *" $name "* ]]; then programs+=("$name"); fi
done
programs+=(example_cuda_{mlp,own_kernel} bench_train_cuda_list bench_train_cuda_gpt2_{0,1,2,3,4,5,6,7,8,13,16})
programs+=(bench_bert_steps_cuda)

mkdir -p "$build"
# PTX is not compressed, for programs share much of it: the archive's compression finds that.
cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DGRADUS_NATIVE=OFF -DGRADUS_CUDA=ON -DGRADUS_NCCL=OFF \
  -DCMAKE_CUDA_ARCHITECTURES=80-virtual -DCMAKE_CUDA_RUNTIME_LIBRARY=Shared \
  "-DCMAKE_CUDA_FLAGS=--no-compress ${GPU_ARCH:--gencode=arch=compute_90a,code=sm_90a}" \
  -DGPT_DEVICE=cuda -DGPT_PRECISION=bf16_mixed -DGPT_LAYERS=12 -DGPT_HEADS=12 -DGPT_WIDTH=768 -DGPT_CONTEXT=1024 \
  -DGPT_VOCABULARY=256 -DGPT_BATCH=16 "$@" >"$build/configure.log" 2>&1 ||
  { tail -n 20 "$build/configure.log" >&2; exit 1; }
targets=()
for name in "${programs[@]}"; do
  if ninja -C "$build" -t query "$name" >"$build/query.log" 2>&1; then targets+=("$name"); fi
done
built() { find "$build" -type f -name "$1" -perm -u+x; }
for name in "${targets[@]}"; do  # a failed build must not leave an old program
  old=$(built "$name")
  rm -f "${old:-$build/none}"
done
failed=0
ninja -C "$build" ${GPU_JOBS:+-j "$GPU_JOBS"} -k 0 "${targets[@]}" >"$build/build.log" 2>&1 ||
  { grep -A 20 '^FAILED' "$build/build.log" >&2; failed=1; }

rm -rf "$pack" && mkdir -p "$pack"/{bin,lib}
declare -A state
for name in "${programs[@]}"; do
  if [[ " ${targets[*]} " != *" $name "* ]]; then state[$name]="not part of this build"
  elif program=$(built "$name") && [[ -n $program ]]; then
    strip -o "$pack/bin/$name" "$program"
    state[$name]=packed
  else
    state[$name]="does not compile"
  fi
done
# As the programs find them here, without what every machine with a compiler has, and what comes with the driver.
{ ldd "$pack"/bin/* 2>/dev/null || true; } |
  awk '$2 == "=>" && $1 !~ /^lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cublasLt|cudnn|nvrtc)\.so/ { print $3 }' |
  sort -u | xargs -r cp -L -t "$pack/lib"
while :; do
  for name in "${programs[@]}"; do echo "$name ${state[$name]}"; done >"$pack/programs"
  tar -C build -c gpu-pack | xz -T1 --lzma2=preset=9,dict=128MiB >"$pack.tar.xz"
  size=$(stat -c %s "$pack.tar.xz") whole=$(du -sb "$pack" | cut -f1)
  if [[ $size -le $((most << 20)) ]]; then break; fi
  # The last programs whose share of the archive is as large as what is too much.
  gone=0
  for ((i = ${#programs[@]} - 1; i >= 0 && gone * size / whole <= size - (most << 20); --i)); do
    name=${programs[i]}
    if [[ ${state[$name]} != packed ]]; then continue; fi
    gone=$((gone + $(stat -c %s "$pack/bin/$name")))
    state[$name]="left out: more than $most MiB"
    rm "$pack/bin/$name"
  done
  [[ $gone -gt 0 ]] || { echo "gpu-check.sh: PACK_MIB=$most has room for no program" >&2; exit 1; }
done
awk '$2 != "packed"' "$pack/programs"
printf '%s: %d of %d programs, %.1f MiB\n' "$pack.tar.xz" "$(grep -c ' packed$' "$pack/programs")" \
  "${#programs[@]}" "$(awk -v n="$size" 'BEGIN { print n / 1048576 }')"
exit $failed
