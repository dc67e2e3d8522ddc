#!/usr/bin/env bash
# Writes text with the model of a run of scripts/train.sh.
#
#   scripts/sample.sh RUN                                     # 400 bytes
#   scripts/sample.sh RUN --prompt "In the beginning" --top-p 0.9 --count 1000
#   scripts/sample.sh RUN --help                              # all flags of gpt_sample
#
# RUN is a run folder. Its file 'config' says which sizes gpt_sample has to be compiled for; where it was compiled before, that takes a second. The
# model is RUN/model.safetensors, and its tokenizer RUN/tokenizer.json, if there is one; of a run that has not ended, best.safetensors, or else checkpoint.safetensors.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"

fail() { echo "sample.sh: $*" >&2; exit 2; }
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
[[ $# -ge 1 && $1 != --* ]] || fail "name the run folder first; --help says more"
run=$1
shift
[[ -e $run ]] || fail "$run: no such folder"
[[ -d $run ]] || fail "$run: is a file; name the folder of a run"
[[ -e $run/config || ! -f $run/flags ]] ||
  fail "$run: a run of an earlier version, which had a file 'flags' in place of 'config'; gpt_sample, compiled for its sizes, can read its model"
[[ -f $run/config && -r $run/config ]] || fail "$run: no run of train.sh: it has no file 'config'"

sizes=(layers heads width context vocabulary batch)
while IFS=' =' read -r name value || [[ -n $name ]]; do
  value=${value%$'\r'}
  case $name in
    layers | heads | width | context | vocabulary | batch | precision | optimizer) declare "$name=$value" ;;
  esac
done <"$run/config"
for name in "${sizes[@]}"; do
  [[ ${!name:-} =~ ^[1-9][0-9]{0,5}$ ]] || fail "$run/config: it does not say $name; is it the file of a run?"
done
[[ ${precision:-} =~ ^[a-z0-9_]+$ && ${optimizer:-} =~ ^[a-z0-9_]+$ ]] ||
  fail "$run/config: it does not say precision and optimizer; is it the file of a run?"
model=""
names=(model best checkpoint)
# The model of a run that ended and was resumed is not its last one.
if [[ $run/checkpoint.safetensors -nt $run/model.safetensors ]]; then names=(best checkpoint); fi
for name in "${names[@]}"; do
  if [[ -z $model && -f $run/$name.safetensors ]]; then model=$run/$name.safetensors; fi
done
[[ -n $model ]] || fail "$run: no model was saved yet"
if [[ $model != "$run/model.safetensors" ]]; then echo "sample.sh: the run has not ended; reading $model" >&2; fi

# The folder in which train.sh compiles for these sizes.
build=$root/build/train/l$layers-h$heads-w$width-c$context-v$vocabulary-b$batch-$precision$([[ $optimizer == adamw ]] || echo "-$optimizer")
log=$build/build-sample.log
gradus_setup build
mkdir -p "$build"
if ! {
  { [[ -f $build/build.ninja ]] || cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGRADUS_CUDA=OFF -DGRADUS_BUILD_TESTS=OFF \
    -DGRADUS_BUILD_BENCHMARKS=OFF -DGPT_LAYERS="$layers" -DGPT_HEADS="$heads" -DGPT_WIDTH="$width" -DGPT_CONTEXT="$context" \
    -DGPT_VOCABULARY="$vocabulary" -DGPT_BATCH="$batch" -DGPT_PRECISION="$precision" -DGPT_OPTIMIZER="$optimizer"; } &&
    cmake --build "$build" --target gpt_sample
} >"$log" 2>&1; then
  grep -E 'error|Error' "$log" | head -n 5 >&2 || true
  echo "sample.sh: gpt_sample could not be compiled; see $log" >&2
  exit 1
fi
exec "$build/examples/gpt_sample" "$model" "$@"
