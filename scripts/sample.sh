#!/usr/bin/env bash
# Writes text with the model of a run of scripts/train.sh.
#
#   scripts/sample.sh RUN                                     # 400 bytes
#   scripts/sample.sh RUN --prompt "In the beginning" --top-p 0.9 --count 1000
#   scripts/sample.sh RUN --device cuda                       # on a GPU (cuda:1: the second); on the CPU unless told,
# wherever the run was trained
#   scripts/sample.sh RUN --help                              # all flags of gpt_sample
#
# RUN is a run folder. Its file 'config' says which sizes gpt_sample has to be compiled for; where it was compiled
# before, that takes a second. The model is RUN/model.safetensors, and its tokenizer RUN/tokenizer.json, if there is
# one; of a run that has not ended, best.safetensors, or else checkpoint.safetensors.
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"
source "$root/scripts/trainer.sh"

fail() {
  gradus_complain "sample.sh: $*"
  exit 2
}
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 0
fi
[[ $# -ge 1 && $1 != --* ]] || fail "name the run folder first; --help says more"
run=$1
shift
device=cpu passed=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --device) device=${2-}; shift; [[ $# -eq 0 ]] || shift ;;
    --device=*) device=${1#*=}; shift ;;
    *) passed+=("$1"); shift ;;
  esac
done
[[ -e $run ]] || fail "$run: no such folder"
[[ -d $run ]] || fail "$run: is a file; name the folder of a run"
[[ -e $run/config || ! -f $run/flags ]] ||
  fail "$run: a run of an earlier version, which had a file 'flags' in place of 'config';" \
    "gpt_sample, compiled for its sizes, can read its model"
[[ -f $run/config && -r $run/config ]] || fail "$run: no run of train.sh: it has no file 'config'"

architecture=gpt2  # of runs of earlier versions, too
# The environment's are not the run's.
layers="" heads="" width="" context="" vocabulary="" kv_heads="" hidden="" tied="" batch="" precision="" optimizer=""
experts="" experts_per_token="" launched_ranks=""
while IFS=' =' read -r name value || [[ -n $name ]]; do
  value=${value%$'\r'}
  case $name in
    layers | heads | width | context | vocabulary | experts | experts-per-token | kv-heads | hidden | tied | batch | \
      architecture | precision | \
      optimizer) declare "${name//-/_}=$value" ;;
  esac
done <"$run/config"
sizes=$(gradus_sizes "$architecture") || fail "$run/config: its architecture is '$architecture': gpt2 or llama"
for name in $sizes ${experts:+experts experts_per_token} batch; do
  [[ ${!name:-} =~ ^[0-9]{1,6}$ ]] || fail "$run/config: it does not say $name; is it the file of a run?"
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

launcher=()
if [[ $device =~ ^cuda:[0-9]{1,3}$ ]]; then
  passed+=(--device "$device")
  device=cuda
fi
case $device in
  cpu) ;;
  cuda)
    command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]] ||
      fail "--device cuda: there is no nvcc: install the CUDA toolkit (with cuBLAS), or leave --device out"
    # A GPU's driver makes one of these; an emulator, which GRADUS_CUDA_LAUNCHER starts, needs none.
    [[ -n ${GRADUS_CUDA_LAUNCHER:-} || -e /dev/nvidiactl || -e /dev/dxg ]] ||
      fail "--device cuda: there is no NVIDIA GPU here, or no driver for it; leave --device out to write on the CPU"
    read -ra launcher <<<"${GRADUS_CUDA_LAUNCHER:-}" ;;
  *) fail "--device is '$device': cpu or cuda, or a GPU by number, such as cuda:1" ;;
esac
gradus_trainer
log=$build/build-sample.log
gradus_setup build
mkdir -p "$build"
if ! {
  { [[ -f $build/build.ninja ]] ||
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${definitions[@]}"; } &&
    cmake --build "$build" --target gpt_sample
} >"$log" 2>&1; then
  grep -E 'error|Error' "$log" | head -n 5 >&2 || true
  echo "sample.sh: gpt_sample could not be compiled; see $log" >&2
  exit 1
fi
exec ${launcher[@]+"${launcher[@]}"} "$build/examples/gpt_sample" "$model" ${passed[@]+"${passed[@]}"}
