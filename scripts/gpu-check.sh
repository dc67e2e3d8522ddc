#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, in one go and in under ten minutes: builds the GPU's tests, examples and
# benchmarks, runs each in a process of its own, compares a first loss with the CPU's, times PyTorch's GPT-2 124M if
# PyTorch is there, and runs a step under ncu and some tests under compute-sanitizer if they are there. Needs nvcc and
# Ninja, and no network. The table is printed as it comes, and is table.txt of ${OUT:-build/gpu}; the logs are in
# logs.tar.gz beside it.
#
#   scripts/gpu-check.sh              on the machine with the GPU
#   scripts/gpu-check.sh --collect    before, on the development machine: copies the headers that the other machine may
#                                     lack (doctest, Google Benchmark, CLI11, nlohmann json) from /usr/include to
#                                     .gpu-deps/
#   scripts/gpu-check.sh --build      only builds, which needs no GPU; a later call builds what has changed since, so
#                                     build/gpu-check may be taken along
#   scripts/gpu-check.sh --no-torch   leaves PyTorch out
#   scripts/gpu-check.sh --ladder     instead of all that: the ladder of bench/train on GPT-2 124M, one technique more a
#                                     rung
#   scripts/gpu-check.sh --trainer    instead: the trainer of scripts/train.sh, GPT-2 124M in bf16_mixed on the
#                                     project's own text, eager and with --graph, resumed, and sampled from.
#                                     GPT_SIZES="-DGPT_LAYERS=2 ..." is for another model, and GRADUS_CUDA_LAUNCHER a
#                                     command to start it with, where there is no GPU
set -uo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: limit begin ladder trainer build_only torch left status
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

torch=1 ladder=0 trainer=0 build_only=0
case ${1-none} in
  none) ;;
  --no-torch) torch=0 ;;
  --build) build_only=1 ;;
  --ladder) ladder=1 ;;
  --trainer) trainer=1 ;;
  --collect)
    rm -rf .gpu-deps && mkdir -p .gpu-deps/include
    for folder in doctest benchmark CLI nlohmann; do
      if [[ ! -d /usr/include/$folder ]]; then echo "gpu-check.sh: no /usr/include/$folder"; continue; fi
      cp -r "/usr/include/$folder" .gpu-deps/include/
    done
    du -sh .gpu-deps
    exit 0 ;;
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) gradus_complain "gpu-check.sh: unknown argument '$1'; --help lists what there is"; exit 2 ;;
esac

out=${OUT:-build/gpu}
build=build/gpu-check
mkdir -p "$out" "$build"
table=$out/table.txt
: >"$table"
bad=0
say() { printf '%-34s %s\n' "$1" "$2" | tee -a "$table"; }
show() { sed 's/^/  /' "$1" | tee -a "$table"; }
logs=$build/logs
rm -rf "$logs" && mkdir -p "$logs"
trap 'tar -czf "$out/logs.tar.gz" -C "$build" logs' EXIT
log_of() { printf '%s/%s.log' "$logs" "$(tr -c 'A-Za-z0-9.\n-' _ <<<"$1")"; }
# step NAME SECONDS COMMAND...: runs it with its output in a log, for so long and not beyond ten minutes in all; says
# how it went.
step() {
  local name=$1 limit=$2 log begin status=0
  shift 2
  log=$(log_of "$name")
  begin=$SECONDS
  if [[ $limit -gt $((585 - SECONDS)) ]]; then limit=$((585 - SECONDS)); fi
  if [[ $limit -lt 5 ]]; then say "$name" "no time left"; bad=1; return 124; fi
  timeout "$limit" "$@" >"$log" 2>&1 || status=$?
  case $status in
    0) say "$name" "ok, $((SECONDS - begin)) s" ;;
    77) say "$name" "$(tail -n 1 "$log")" ;;
    124) say "$name" "STOPPED after $limit s"; bad=1 ;;
    *) say "$name" "FAILED ($status), see $log"; bad=1; tail -n 15 "$log" ;;
  esac
  return "$status"
}

# Without CMake's configuration step: it would want packages that this machine may not have.
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo "gpu-check.sh: no nvcc on the PATH nor in /usr/local/cuda/bin" >&2; exit 2; }
cuda=$(cd "$(dirname "$(readlink -f "$nvcc")")/.." && pwd)
include=()
# cuBLASLt of the toolkit, or else of PyTorch's packages, whose library has no name without a version.
blas=-lcublasLt
if [[ ! -e $cuda/lib64/libcublasLt.so && ! -e $cuda/targets/x86_64-linux/lib/libcublasLt.so ]]; then
  wheel=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)/cu13
  blas="-L$wheel/lib -l:libcublasLt.so.13 -Xlinker -rpath=$wheel/lib"
  include+=(-isystem "$wheel/include")
fi
nccl=
if [[ -e $cuda/include/nccl.h || -e /usr/include/nccl.h ]] && ldconfig -p | grep -q libnccl.so; then nccl=-lnccl; fi
tests=()
if [[ -d .gpu-deps/include ]]; then include+=(-isystem .gpu-deps/include); fi
{
  echo "builddir = $build"
  echo "nvcc = $nvcc"
  echo "cuflags = -std=c++20 -O2 --expt-relaxed-constexpr ${GPU_ARCH:--gencode=arch=compute_90a,code=sm_90a}" \
    "-lineinfo -Xcompiler=-Wall,-Wextra -DGRADUS_WITH_CUDA=1 -Iinclude ${include[*]}"
  echo "cxxflags = -std=c++20 -O2 -pthread -Iinclude ${include[*]}"
  echo "libs = -L$cuda/lib64 -L$cuda/targets/x86_64-linux/lib $blas -lgomp $nccl" \
    "${GRADUS_CUDA_LAUNCHER:+-cudart=shared} -Xlinker -rpath=$cuda/lib64"
  # Dependency files, so that a second run builds only what changed.
  echo "rule cu"
  echo '  command = $nvcc $cuflags -MMD -MF $out.d -c $in -o $out'; echo '  depfile = $out.d'; echo '  deps = gcc'
  echo "rule cxx"
  echo '  command = g++ $cxxflags -MMD -MF $out.d -c $in -o $out'; echo '  depfile = $out.d'; echo '  deps = gcc'
  echo "rule link"; echo '  command = $nvcc $in -o $out $libs'
  echo 'build $builddir/main.o: cxx tests/main.cpp'
  for source in tests/cuda/*.cu; do
    name=$(basename "$source" .cu)
    if [[ $name == nccl* && -z $nccl ]]; then continue; fi
    objects="\$builddir/main.o \$builddir/$name.cu.o"
    echo "build \$builddir/$name.cu.o: cu $source"
    if [[ -e tests/cuda/$name.cpp ]]; then
      echo "build \$builddir/$name.cpp.o: cxx tests/cuda/$name.cpp"
      objects+=" \$builddir/$name.cpp.o"
    fi
    echo "build \$builddir/test_$name: link $objects"
    tests+=("$name")
  done
  echo "build tests: phony $(printf '$builddir/test_%s ' "${tests[@]}")"
  for example in cuda_mlp cuda_own_kernel; do
    echo "build \$builddir/$example.o: cu examples/$example.cu"
    echo "build \$builddir/$example: link \$builddir/$example.o"
  done
  echo 'build $builddir/bench.o: cu bench/cuda/cuda.cu'
  echo 'build $builddir/bench: link $builddir/bench.o'
  # One layer, whose first loss is known, and GPT-2 124M as published figures are taken.
  echo 'build $builddir/gpt_step_small.o: cu bench/cuda/gpt_step.cu'
  echo 'build $builddir/gpt_step_small: link $builddir/gpt_step_small.o'
  echo 'build $builddir/gpt_step.o: cu bench/cuda/gpt_step.cu'
  echo '  cuflags = $cuflags -DGPT_LAYERS=12 -DGPT_CONTEXT=1024 -DGPT_BATCH=16'
  echo 'build $builddir/gpt_step: link $builddir/gpt_step.o'
  echo 'build $builddir/gpt_step_64.o: cu bench/cuda/gpt_step.cu'
  echo '  cuflags = $cuflags -DGPT_LAYERS=12 -DGPT_CONTEXT=1024 -DGPT_BATCH=64'
  echo 'build $builddir/gpt_step_64: link $builddir/gpt_step_64.o'
  # bench/train's programs: <rung>, and what they share.
  echo 'build $builddir/unfused.o: cu bench/train/unfused_adamw.cu'
  echo '  cuflags = $cuflags -DTRAIN_ON_GPU=1 -DTRAIN_MODEL=gpt2'
  echo 'build $builddir/list.o: cxx bench/train/list.cpp'; echo '  cxxflags = $cxxflags -DTRAIN_ON_GPU=1'
  echo 'build $builddir/bench_train_cuda_list: link $builddir/list.o'
  rungs="0 1 2 3 4 5 6 7 8 13 16"
  for rung in $rungs; do
    echo "build \$builddir/rung_$rung.o: cu bench/train/train.cu"
    echo "  cuflags = \$cuflags -DTRAIN_ON_GPU=1 -DTRAIN_MODEL=gpt2 -DTRAIN_PROGRAM=$rung"
    echo "build \$builddir/bench_train_cuda_gpt2_$rung: link \$builddir/rung_$rung.o \$builddir/unfused.o"
  done
  echo "build ladder: phony \$builddir/bench_train_cuda_list $(printf '$builddir/bench_train_cuda_gpt2_%s ' $rungs)"
  # The trainer's and the sampler's programs.
  gpt="-DGPT_DEVICE=cuda -DGPT_PRECISION=bf16_mixed -DGPT_VOCABULARY=256"
  gpt+=" ${GPT_SIZES:--DGPT_LAYERS=12 -DGPT_HEADS=12 -DGPT_WIDTH=768 -DGPT_CONTEXT=1024 -DGPT_BATCH=16}"
  objects=()
  for source in train.cu tools/sample.cu memory.cpp model_file.cpp options.cpp reports.cpp text_data.cpp \
    ../flags/flags.cpp; do
    object=\$builddir/gpt_${source//\//_}.o
    if [[ $source == *.cu ]]; then echo "build $object: cu examples/gpt/$source"; echo "  cuflags = \$cuflags $gpt"
    else echo "build $object: cxx examples/gpt/$source"; echo "  cxxflags = \$cxxflags $gpt"; fi
    if [[ $source != tools/sample.cu ]]; then objects+=("$object"); fi
  done
  echo "build \$builddir/gpt_train: link ${objects[*]}"
  echo 'build $builddir/gpt_sample: link $builddir/gpt_tools_sample.cu.o $builddir/gpt_model_file.cpp.o $builddir/gpt_.._flags_flags.cpp.o'
  echo 'build trainer: phony $builddir/gpt_train $builddir/gpt_sample'
  printf 'default tests'
  printf ' $builddir/%s' cuda_mlp cuda_own_kernel bench gpt_step_small gpt_step gpt_step_64
  echo
} >"$build/build.ninja"

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$out/gpu.txt" 2>/dev/null ||
  echo "no nvidia-smi, or no GPU" >"$out/gpu.txt"
say "GPU" "$(head -n 1 "$out/gpu.txt")"
if [[ $ladder -eq 1 ]]; then
  step "build of the ladder" 400 ninja -f "$build/build.ninja" ladder &&
    step "the ladder" $((580 - SECONDS)) env "GRADUS_BENCH_JSON=$out/train.json" \
      python3 bench/train/run.py --device cuda --model gpt2 --tables ladder --rounds 1 --programs "$build" &&
    show "$(log_of "the ladder")"
  exit $bad
fi
if [[ $trainer -eq 1 ]]; then
  rm -rf "$build"/{gpt_train,gpt_sample,runs} && mkdir -p "$build/runs"
  cat README.md docs/*.md docs/guide/*.md include/gradus/*/*.hpp >"$build/text"
  read -ra launcher <<<"${GRADUS_CUDA_LAUNCHER:-}"
  train() {
    step "$1" 120 "${launcher[@]}" "$build/gpt_train" --data "$build/text" --eval-every 1000 --sample 0 "${@:2}"
  }
  result() {
    say "  result" "$(tail -n 1 "$build/runs/$1/log.jsonl" |
      grep -oE '"(step|loss|tokens_per_second)": [0-9.]+' | tr '\n' ' ')"
  }
  step "build of the trainer" 420 ninja -f "$build/build.ninja" trainer || exit 1
  train "60 steps, eager" --steps 60 --out "$build/runs/eager" && result eager
  train "60 steps, --graph" --steps 60 --graph --out "$build/runs/graph" && result graph
  if cmp -s "$build"/runs/{eager,graph}/model.safetensors; then
    say "the same bits" "yes"
  else
    say "the same bits" "NO"
    bad=1
  fi
  train "resumed, to step 80" --steps 80 --graph --resume "$build/runs/graph" && result graph
  step "a sample" 60 "${launcher[@]}" "$build/gpt_sample" "$build/runs/graph/model.safetensors" --count 200 &&
    tr -cd '\n[:print:]' <"$(log_of "a sample")" >"$build/sample.txt" && show "$build/sample.txt"
  exit $bad
fi
# A failed build must not leave an old program to run.
find "$build" -maxdepth 1 -type f -perm -u+x -delete
if [[ $build_only -eq 1 ]]; then
  ninja -f "$build/build.ninja" -k 0
  exit
fi
step build 420 ninja -f "$build/build.ninja" -k 0
# A process each, the likeliest to be wrong first: a kernel's failure ends all that its process does on the GPU.
first="matmul attention rows gpt graph memory"
for name in $first $(printf '%s\n' "${tests[@]}" | grep -vxF "$(tr ' ' '\n' <<<"$first")"); do
  if [[ ! -x $build/test_$name ]]; then continue; fi
  step "test $name" 30 "$build/test_$name"
done
for example in cuda_mlp cuda_own_kernel; do
  if [[ -x $build/$example ]]; then
    step "example $example" 60 "$build/$example" && say "  last line" "$(tail -n 1 "$(log_of "example $example")")"
  fi
done
# In bf16, so that its products differ from the CPU's in their last bits.
if [[ -x $build/gpt_step_small ]]; then
  first_loss() {
    "$build/gpt_step_small" 0 |
      awk '{ print } /^first loss/ { loss = $3 } END { exit !(loss > 10.9635 && loss < 10.9675) }'
  }
  export -f first_loss
  export build
  step "first loss: 10.9655 on the CPU" 60 bash -c first_loss && show "$(log_of "first loss: 10.9655 on the CPU")"
fi
if [[ -x $build/gpt_step ]]; then
  step "GPT-2 124M, batch 16" 60 "$build/gpt_step" && show "$(log_of "GPT-2 124M, batch 16")"
fi
# As PyTorch is timed at its fastest, 64 sequences, with its algorithms chosen by their time.
if [[ -x $build/gpt_step_64 ]]; then
  step "GPT-2 124M, batch 64, tuned" 90 "$build/gpt_step_64" 20 "$build/products" &&
    show "$(log_of "GPT-2 124M, batch 64, tuned")"
fi
ncu=$(command -v ncu || echo "$cuda/bin/ncu")
if [[ -x $build/gpt_step && -x $ncu ]]; then
  kernels_by_time() {  # of the second of two steps; one pass a kernel, so that nothing is saved and restored
    "$ncu" --clock-control none --print-units base --csv --metrics gpu__time_duration.sum "$build/gpt_step" 0 |
      awk -F'","' '/gpu__time_duration/ { name = $5; sub(/[<(].*/, "", name); sub(/.*::/, "", name)
          sub(/^void /, "", name); t = $NF; gsub(/[",]/, "", t); time[name] += t; n[name]++; all += t }
        END { printf "%-44s %6s %10s %6s\n", "two steps", "calls", "us", "share"
          sorted = "sort -k3,3nr"
          for (k in time) printf "%-44s %6d %10.1f %5.1f%%\n", k, n[k], time[k] / 1e3, 100 * time[k] / all | sorted }'
  }
  export -f kernels_by_time
  export ncu build logs
  step "kernels by time (ncu)" 120 bash -c kernels_by_time && show "$(log_of "kernels by time (ncu)")"
fi
if [[ -x $build/bench ]]; then
  if GRADUS_BENCH_JSON=$out/bench.json step bench 60 "$build/bench"; then show "$(log_of bench)"; fi
fi
# What is left of ten minutes is for PyTorch, the most telling settings first, and for memcheck.
if [[ $torch -eq 1 ]] && python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  for setting in "64 --compile" "64" "32 --compile" "64 --max-autotune" "16 --compile"; do
    left=$((580 - SECONDS))
    if [[ $left -lt 40 ]]; then say "torch, batch $setting" "no time left"; continue; fi
    # shellcheck disable=SC2086  # a batch and a flag
    if step "torch $setting" "$((left < 150 ? left : 150))" \
      python3 bench/peers/torch_gpt.py --device cuda --model gpt2-1024 --precision bf16_mixed \
      --steps 20 --warmup 5 --batch $setting; then
      say "  result" "$(grep -oE '"(tok_s|peak_mib|loss)": [0-9.]+' "$(log_of "torch $setting")" | tr '\n' ' ')"
    fi
  done
fi
sanitizer=$(command -v compute-sanitizer || echo "$cuda/bin/compute-sanitizer")
if [[ -x $sanitizer ]] && nvidia-smi >/dev/null 2>&1; then
  # Tests ask for what cannot be, such as more memory than there is: errors of calls are theirs to judge.
  check_with() {  # TOOL NAME WORDS...
    local status=0
    # A test that starts a process wants a kernel to fail in it.
    "$sanitizer" --tool "$1" --report-api-errors no --error-exitcode 1 --target-processes application-only \
      "$build/test_$3" 2>&1 || status=$?
    if [[ $status -ne 0 ]] && grep -q 'Device not supported' "$(log_of "$2")"; then return 77; fi
    return "$status"
  }
  export -f check_with log_of
  export sanitizer build logs
  # The kernels that share memory between threads and copy while they compute.
  for tool in racecheck synccheck memcheck; do
    for name in attention rows mixture matmul; do
      step "$tool of $name" 60 bash -c 'check_with "$@"' check "$tool" "$tool of $name" "$name"
    done
  done
fi
exit $bad
