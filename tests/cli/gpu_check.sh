#!/usr/bin/env bash
# gpu_check.sh SOURCE WORK NVCC: scripts/gpu-check.sh, from a checkout to the pack and the three calls. CMake configures
# with the real compilers, so every program is a target whose sources are there; a stand-in takes their place in the
# build and makes programs that say what programs of their name would. The calls run with what a machine with a GPU has
# and no more: no compiler, no CMake; stand-ins for its tools.
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: $0 SOURCE WORK NVCC" >&2; exit 2; }
source=$1 work=$2 nvcc=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"/{bin,gpu,checkout}
cd "$work"
source "$here/support.sh"

cp -r "$source/scripts" checkout/  # it writes beside itself
for path in include tests examples bench docs cmake CMakeLists.txt README.md LICENSE; do
  ln -s "$source/$path" checkout/
done
cat >stand-in <<'EOS'
if [[ $PWD != "$build" ]]; then exec "$real" "$@"; fi
out="" previous=""
for argument in "$@"; do
  case $previous in
    -o) out=$argument ;;
    -c) [[ $argument != *.cu || -f $argument ]] || { echo "no source $argument" >&2; exit 1; } ;;
    -MF) echo "$out:" >"$argument" ;;
  esac
  previous=$argument
done
if [[ -n ${STANDIN_UNCOMPILABLE:-} && $out == *"$STANDIN_UNCOMPILABLE"*.o ]]; then echo "an error" >&2; exit 1; fi
cat >"$out" <<'EOP'
#!/usr/bin/env bash
name=${0##*/}
if [[ $name == "${STANDIN_BROKEN:-}" ]]; then echo "a kernel failed"; exit 1; fi
if [[ $name == "${STANDIN_SKIPPED:-}" ]]; then echo "gradus skipped: 1 (no GPU: no driver)"; fi
if [[ $name == "${STANDIN_SLOW:-}" ]]; then sleep 100; fi
case $name in
  bench_cuda_gpt_step*)
    if [[ $name == *_16 ]]; then echo "first loss 10.9925"; else echo "first loss ${STANDIN_LOSS:-10.9655}"; fi
    echo "eager       100000 tokens/s, 1.0 ms a step, loss 9.0"
    echo "graph       200000 tokens/s, 1.0 ms a step, loss 9.0"
    echo "9 kernels, copies and fills a step; peak 100 MiB" ;;
  bench_cuda_products)
    for product in "qkv forward" "projection forward" "qkv to x" "qkv to w"; do
      for algorithm in {1..100}; do
        echo "{\"product\": \"$product\", \"epilogue\": \"bias\", \"us\": 9.5, \"tflops\": 1, \"split_k\": 1," \
          "\"reduction\": 0, \"same_bits\": $([[ $algorithm -gt 50 ]] && echo true || echo false)}"
      done
    done ;;
  bench_cuda) echo "device copy                           3000.0 GB/s" ;;
  bench_train_cuda_list)
    echo '{"number": 0, "name": "naive", "without": false, "program": 0, "same": 0, "on": []}' ;;
  bench_train_cuda_gpt2_*)
    echo '{"losses": [1.5], "step_ms": [1], "cpu_ms": [1], "step_bytes": 1, "process_bytes": 1, "state_bytes": 1,' \
      '"parameters": 1, "machine": "a GPU"}' ;;
  bench_bert_steps_cuda)
    echo '{"samples_s": 20, "planned": 1000000, "loss": 0.7, "guide_mb": 14949, "guide_samples_s": 8.86}' ;;
  gpt_train)
    saves=0 resumes=0 folder=""
    while [[ $# -gt 0 ]]; do
      case $1 in
        --save-every) saves=1 ;;
        --out) folder=$2 ;;
        --resume) folder=$2 resumes=1 ;;
      esac
      shift
    done
    mkdir -p "$folder"
    if [[ $saves -eq 1 && $resumes -eq 0 ]]; then echo state >"$folder/checkpoint.safetensors"; sleep 60; fi
    echo '{"step": 60, "loss": 1.5, "tokens_per_second": 10}' >"$folder/log.jsonl"
    echo "weights${STANDIN_BITS:+ $RANDOM$RANDOM}" >"$folder/model.safetensors" ;;
  gpt_sample) echo "a text" ;;
  *) echo "[doctest] test cases: 1 | 1 passed" ;;
esac
exit 0
EOP
head -c 30000 /dev/urandom >>"$out"
chmod +x "$out"
EOS
compiler() { echo "#!/usr/bin/env bash"; echo "real='$1' build='$work/checkout/build/gpu-check'"; cat stand-in; }
compiler "$nvcc" >bin/nvcc
compiler "$(command -v g++)" >bin/g++
printf '#!/bin/sh\nexec cp "$3" "$2"\n' >bin/strip
printf '#!/bin/sh\necho "libcudart.so.13 => %s (0x1)"\n' "$work/library" >bin/ldd
echo a library >library
chmod +x bin/*
pack=(env "PATH=$work/bin:$PATH" checkout/scripts/gpu-check.sh --pack -DCMAKE_CXX_COMPILER_LAUNCHER=
  -DCMAKE_CUDA_COMPILER_LAUNCHER= "-DCMAKE_CUDA_COMPILER=$work/bin/nvcc" "-DCMAKE_CXX_COMPILER=$work/bin/g++")

# What a machine with a GPU has.
for tool in bash cat cmp dirname env head mkdir rm sed sleep tail tr; do ln -s "$(command -v $tool)" gpu/; done
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(python3 -c 'import sys; print(sys.executable)')" >gpu/python3
printf '#!/bin/sh\necho "NVIDIA H100 80GB HBM3, 580.1, 81559 MiB"\n' >gpu/nvidia-smi
cat >gpu/ncu <<'EOS'
#!/usr/bin/env python3
# A step of GPT-2 124M as ncu prints it, of the size that it has: hundreds of launches, three of them the
# optimizer's, for 148 tensors. Two steps, unless the program turns profiling on after the first.
import sys

def kernel(name):
    return f"void gradus::cuda_kit::{name}<gradus::tensor<float, gradus::shape<(unsigned long)16, 768>>, 4>(T1 *, T2)"

block = ["norm_kernel", "nvjet_tst_128", "tensor_attention_kernel", "nvjet_tst_128", "map_kernel", "norm_kernel",
         "nvjet_tst_128", "map_kernel", "nvjet_tst_128", "map_kernel"]
back = ["nvjet_tst_192", "sum_columns_kernel", "map_gradient_kernel", "convert_kernel", "nvjet_tst_192",
        "nvjet_tst_192", "sum_columns_kernel", "norm_gradient_kernel", "add_parts_kernel", "convert_kernel"] * 3
back += ["tensor_attention_dq_kernel", "tensor_attention_dkv_kernel", "nvjet_tst_192", "convert_kernel"]
loss = ["cross_entropy_row_kernel", "cross_entropy_count_kernel", "cross_entropy_mean_kernel", "scale_kernel"]
end = ["index_keys_kernel", "DeviceRadixSortSingleTileKernel", "sum_segments_kernel", "join_segments_kernel",
       "gradient_pass_kernel", "conclude_gradient_pass_kernel"] + ["element_step_kernel"] * 3
step = ["embedding_kernel", "fill_kernel"] + block * 12 + ["norm_kernel", *loss] + back * 12 + end
steps = step if "--profile-from-start" in sys.argv else step * 2
print("==PROF== Connected to process 4711\nfirst loss 10.9925")
print("==PROF== Disconnected from process 4711")
print('"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
      '"CC","Section Name","Metric Name","Metric Unit","Metric Value"')
for number, name in enumerate(steps):
    for metric, value in (("dram__bytes_read.sum", "1,048,576"), ("dram__bytes_write.sum", "524,288"),
                          ("gpu__time_duration.sum", "43,210"), ("smsp__inst_executed.sum", "65,536")):
        print(f'"{number}","4711","bench_cuda_gpt_step_16","127.0.0.1","{kernel(name)}","1","13","(256, 1, 1)",'
              f'"(216, 1, 1)","0","9.0","Command line profiler metrics","{metric}","","{value}"')
EOS
printf '#!/bin/sh\nfor a; do case $a in */bin/cuda_*) exec "$a" ;; esac; done\nexit 1\n' >gpu/compute-sanitizer
chmod +x gpu/{python3,nvidia-smi,ncu,compute-sanitizer}
echo >gpu/libcublasLt.so.13
call() {  # CALL ARGUMENT..., with settings of the stand-ins before it
  env -i "PATH=$work/gpu" "LD_LIBRARY_PATH=$work/gpu" "OUT=$work/results" "${settings[@]}" \
    checkout/scripts/gpu-check.sh --call "$@"
}
settings=()

# The pack: every program but cuDNN's, whose headers nobody named, and within its size.
succeeds "${pack[@]}"
has out '^build/gpu-pack.tar.xz: [0-9]+ of [0-9]+ programs, [0-9.]+ MiB$'
[[ $(grep -v ' packed$' checkout/build/gpu-pack/programs) == "bench_cuda_gpt_step_64_cudnn not part of this build" ]] ||
  wrong "not packed: $(grep -v ' packed$' checkout/build/gpu-pack/programs)"
for test in "$source"/tests/cuda/*.cu; do
  name=$(basename "$test" .cu)
  [[ -x checkout/build/gpu-pack/bin/cuda_$name || $name == nccl* ]] || wrong "no program of tests/cuda/$name.cu"
done
cp checkout/build/gpu-pack.tar.xz whole.tar.xz
# Programs that are too many, or do not compile.
succeeds env PACK_MIB=1 "${pack[@]}"
[[ $(stat -c %s checkout/build/gpu-pack.tar.xz) -le 1048576 ]] || wrong "PACK_MIB=1: $(tail -n 1 out)"
has out '^bench_bert_steps_cuda left out: more than 1 MiB$'
has checkout/build/gpu-pack/programs '^cuda_matmul packed$'
fails() { ! "$@" >out 2>err </dev/null || wrong "status 0: $*"; }
rm -rf checkout/build/gpu-check/tests/cuda
fails env STANDIN_UNCOMPILABLE=rows.cu "${pack[@]}"
has out '^cuda_rows does not compile$'
refuses 2 'PACK_MIB must be a number' env PACK_MIB=x "${pack[@]}"

# The calls, with the whole pack and nothing else that was built.
rm -rf checkout/build
mkdir checkout/build
mv whole.tar.xz checkout/build/gpu-pack.tar.xz
for name in a b c; do
  succeeds call $name --plan
  has out '^ +[0-9]+ s  '
  [[ ! -e results ]] || wrong "a plan ran"
done
for name in a b c; do succeeds call $name; done
page=results/gpu-check.md
has $page '^Nothing went wrong'
has $page '^\| test matmul \|'
has $page '^\| first loss, one layer \| 10.9654 .* \| first loss 10.9655 \| ok'
# One step, kernel by kernel; what a GPU launches has a bound, and nothing else is expected of it.
has $page '^\| kernel by kernel \| [0-9.]+ ms at the bound \| 544 launches, [0-9.]+ ms; .* backward by tiles \| ok'
has $page '^\| norm_kernel \| 25 \| 1080 \|'
has $page '^\| element_step_kernel \| 3 \|'
has $page '^\| products \(cuBLASLt\) \| 168 \|'
has $page '^\| tensor_attention_dq_kernel \| 12 \| 519 \| [0-9.]+% \| [0-9]+ \|'
has $page '^\| tensor_attention_dkv_kernel \| 12 \| 519 \| [0-9.]+% \| [0-9]+ \|'
if grep -q tensor_attention_heads_kernel $page; then wrong "an H100 was to take whole heads"; fi
has $page '^\| device copy \| 3000.0 \|'
has $page '^\| qkv forward \| bias \| 100 \|'
has $page '^\| PyTorch, 64 sequences .* no torch here'
has $page '^\| racecheck of attention \|.*ok'
has $page '^\| killed and resumed, the same bits \|.*ok'
has $page '^naive '
has $page '^\| BERT-large, batch 4 \| 8.86 samples/s'
has $page 'cuDNN.* \| left out'
has results/gpu-check.json '"status": "ok"'
[[ -s results/logs-a.tar.gz ]] || wrong "no logs"
# What goes wrong is said, and does not end the rest.
settings=(STANDIN_LOSS=10.9 STANDIN_BROKEN=cuda_matmul STANDIN_SKIPPED=cuda_gpt)
fails call a
has out '^test matmul +FAILED'
has out '^first loss, one layer +FAILED'
has out '^test rows +ok'
has out '^test gpt +FAILED.*no driver'
has $page '3 steps went wrong'
# Nor does what an archive had no room for.
tar -C checkout/build -xJf checkout/build/gpu-pack.tar.xz
sed -i 's/^bench_train_cuda_list .*/bench_train_cuda_list left out: more than 40 MiB/' checkout/build/gpu-pack/programs
rm checkout/build/gpu-pack/bin/bench_train_cuda_list
cp checkout/build/gpu-pack.tar.xz whole.tar.xz
tar -C checkout/build -cJf checkout/build/gpu-pack.tar.xz gpu-pack
settings=(STANDIN_BITS=1)
fails call c
has out '^killed and resumed, the same bits +FAILED'
has out '^the ladder +left out.*more than 40 MiB'
has out '^BERT-large, batch 4 +ok'
mv whole.tar.xz checkout/build/gpu-pack.tar.xz
settings=(STANDIN_SLOW=cuda_attention)
fails call a --seconds 6
has out '^test attention +STOPPED'
has out '^test rows +NO TIME'
settings=()
# A program that was to be there.
tar -C checkout/build -xJf checkout/build/gpu-pack.tar.xz
rm checkout/build/gpu-pack/bin/cuda_rows
tar -C checkout/build -cJf checkout/build/gpu-pack.tar.xz gpu-pack
fails call a
has out '^test rows +MISSING'
# Calls whose machines kept nothing, merged.
mkdir b
cp results/gpu-check.json b/
fails env "OUT=merged" checkout/scripts/gpu-check.sh --page results/gpu-check.json b/gpu-check.json
has out '^call a, test rows: MISSING'
has merged/gpu-check.md '3 steps went wrong'
refuses 2 'unknown argument' checkout/scripts/gpu-check.sh --banana
refuses 2 'takes a, b or c' checkout/scripts/gpu-check.sh --call d
rm checkout/build/gpu-pack.tar.xz
refuses 1 'make it with' call a
[[ $failures -eq 0 ]]
