#!/usr/bin/env bash
# Trains a BERT to classify your texts, on this machine: installs what is
# missing, compiles the trainer for the model's sizes, runs it.
#
#   scripts/train-bert.sh --dummy                           # bert-tiny, on random tokens
#   scripts/train-bert.sh --init bert-base-uncased --data reviews.tsv
#   scripts/train-bert.sh --model bert-large --length 512 --dummy --plan
#
#   --data FILE       lines 'text TAB label', or 'text TAB label TAB second text';
#                     labels are whole numbers from 0, or names. A first line
#                     whose label is 'label' is a header
#   --validation-data FILE
#                     the same for validation (default: the last tenth of --data)
#   --dummy           512 sequences of random tokens with random labels
#   --init FOLDER     start from a BERT of Hugging Face's (config.json,
#                     model.safetensors, tokenizer.json), with its sizes; a
#                     classifier that it lacks is a new one
#   --tokenizer FILE  tokenizer.json of WordPiece (default: that of --init)
#   --model NAME      bert-tiny (default), bert-base or bert-large
#   --layers N, --heads N, --width N, --hidden N, --positions N, --vocabulary N
#                     change one size of the model
#   --labels N        classes (default: those of the classifier of --init, or else
#                     of --data, or 2)
#   --length N        tokens of a sequence (128): longer texts are cut
#   --batch N         sequences a batch (16)
#   --precision NAME  fp32 (default), bf16_mixed, fp16_mixed, bf16_stream,
#                     bf16_gradients, bf16_pure or fp64; on a GPU also tf32
#   --optimizer NAME  adamw (default), sgd, lion, adafactor, adamw_8bit,
#                     any_precision_adamw or muon
#   --device NAME     cpu (default) or cuda
#   --epochs N        times that each text is used (3), or --steps N
#   --lr RATE         highest learning rate (a tenth of the optimizer's usual one)
#   --warmup SHARE    of the steps over which the learning rate rises (0.1); then
#                     it falls to 0
#   --weight-decay X, --clip X, --dropout P, --seed N, --threads N
#                     (0.01, 1: largest gradient norm, 0.1, 1, all cores)
#   --accumulate N    batches a step (1)
#   --checkpoint NAME what backward recomputes instead of keeping it: none
#                     (default), blocks (all of each block) or matmul (all but
#                     matrix products)
#   --memory-budget SIZE
#                     most memory, such as 4GiB: what is recomputed is chosen
#   --validation SHARE
#                     share of --data, from its end, for validation (0.1)
#   --eval-every N    steps between validations (default: after each epoch)
#   --save-every N    steps (100) or time (30s, 5m, 1h) between checkpoints (5m);
#                     0: save only at the end
#   --out DIR         run folder, new or empty
#   --resume DIR      resume the run in this folder, with all other flags as
#                     before
#   --plan            say what memory the run would take, train nothing
#   --help            this text
#
# The run folder (--out, default runs/<date>-<time>) gets log.jsonl, loss.svg,
# checkpoint.safetensors and, at the end, model: a folder of Hugging Face's, which
# transformers and --init read. The compiled trainer stays in build/bert.
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: plan width heads length positions labels
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"
source "$root/scripts/trainer.sh"

fail() {
  gradus_complain "train-bert.sh: $*"
  exit 2
}

model="" layers="" heads="" width="" hidden="" positions="" vocabulary="" labels="" length=128 batch=16
precision=fp32 optimizer=adamw device=cpu data="" init="" tokenizer="" out="" resume="" plan=0
passed=() given=" "
while [[ $# -gt 0 ]]; do
  if [[ $1 == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
  given+="$1 "
  case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    --model | --layers | --heads | --width | --hidden | --positions | --vocabulary | --labels | --length | --batch | \
      --precision | --optimizer | --device)
      [[ -n ${2:-} && $2 != --* ]] || fail "$1 needs a value"
      check_value "$1" "$2"
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    --data | --init | --validation-data | --tokenizer)
      [[ -n ${2:-} && $2 != --* ]] || fail "$1 needs a name"
      [[ -r $2 ]] || fail "$1: $2: no such file or folder, or it cannot be read"
      [[ $1 == --init || (-f $2 && -s $2) ]] || fail "$1: $2: is empty, or is not a plain file"
      case $1 in --data) data=$2 ;; --init) init=$2 ;; --tokenizer) tokenizer=$2 ;; esac
      passed+=("$1" "$2")
      shift 2 ;;
    --plan) plan=1; passed+=("$1"); shift ;;
    --dummy) passed+=("$1"); shift ;;
    --epochs | --steps | --lr | --warmup | --weight-decay | --clip | --dropout | --seed | --threads | --accumulate | \
      --checkpoint | --memory-budget | --eval-every | --save-every | --validation | --out | --resume)
      [[ -n ${2:-} && $2 != --* ]] || fail "$1 needs a value"
      case $1 in
        --epochs) check_value "$1" "$2" "a positive number" ;;
        --warmup) check_value "$1" "$2" "at least 0 and below 1" ;;
        --checkpoint) check_value "$1" "$2" "none, blocks or matmul" ;;
        --eval-every) check_value "$1" "$2" 1..4294967295 ;;
        --out) out=$2 ;;
        --resume) resume=$2 ;;
        *) check_value "$1" "$2" ;;
      esac
      passed+=("$1" "$2")
      shift 2 ;;
    *) fail "unknown argument '$1'; --help lists what there is" ;;
  esac
done

# What the trainer would say, but only after it was compiled.
for pair in data:dummy epochs:steps out:resume validation:validation-data checkpoint:memory-budget; do
  [[ $given != *" --${pair%:*} "* || $given != *" --${pair#*:} "* ]] ||
    fail "--${pair%:*} and --${pair#*:}: give one of them"
done
[[ -n $data || $given == *" --dummy "* || $plan -eq 1 ]] ||
  fail "--data is required: name a file of labelled texts, or give --dummy"
[[ -z $data || -n $tokenizer$init ]] || fail "--tokenizer is required: name a tokenizer.json of WordPiece"
[[ -z $out || -z $(ls -A -- "$out" 2>/dev/null) ]] || fail "--out: $out: is not empty; name another folder"
if [[ -n $resume ]]; then
  [[ -d $resume ]] || fail "--resume: $resume: no such folder"
  [[ -e $resume/checkpoint.safetensors || -e $resume/checkpoint-previous.safetensors ]] ||
    fail "--resume: $resume: has no checkpoint"
fi

# The sizes: those that are given, those of --init, those of --model.
from_init() {  # NAME SIZE
  check_value "--$1" "$2"
  [[ -z ${!1} || ${!1} == "$2" ]] || fail "--$1 ${!1}: the model of --init, $init, has $2; leave it out"
  printf -v "$1" %s "$2"
}
if [[ -n $init ]]; then
  [[ -z $model ]] || fail "--init and --model: give one of them; --init has the model's sizes"
  [[ -r $init/config.json ]] || fail "--init: $init: has no config.json"
  settings=$(tr -d '[:space:]' <"$init/config.json")
  [[ $settings == *'"model_type":"bert"'* ]] ||
    fail "--init: $init/config.json: is not of a BERT: its model_type must be \"bert\""
  for pair in layers:num_hidden_layers heads:num_attention_heads width:hidden_size hidden:intermediate_size \
    positions:max_position_embeddings vocabulary:vocab_size; do
    name=${pair%:*}
    [[ $settings =~ \"${pair#*:}\":([0-9]+) ]] || fail "--init: $init/config.json: has no '${pair#*:}'"
    from_init "$name" "${BASH_REMATCH[1]}"
  done
  [[ $settings =~ \"type_vocab_size\":2[,}] ]] ||
    fail "--init: $init/config.json: its 'type_vocab_size' must be 2: the texts of a pair"
  if [[ $settings == *'ForSequenceClassification"'* ]]; then
    found=2  # which transformers leaves out
    if [[ $settings =~ \"id2label\":\{([^}]*)\} ]]; then
      found=$(grep -oE '(^|,)"[0-9]+":"' <<<"${BASH_REMATCH[1]}" | wc -l)
    fi
    from_init labels "$found"
  fi
  if [[ ! -e $init/model.safetensors && ! -e $init/model.safetensors.index.json ]]; then
    [[ ! -e $init/pytorch_model.bin && ! -e $init/pytorch_model.bin.index.json ]] ||
      fail "--init: $init: has pytorch_model.bin and no model.safetensors, which transformers makes of it:" \
        "python3 -c 'from transformers import AutoModelForSequenceClassification as M;" \
        "M.from_pretrained(\"$init\").save_pretrained(\"$init\")'"
    fail "--init: $init: has no model.safetensors"
  fi
  [[ -z $data || -n $tokenizer || -r $init/tokenizer.json ]] ||
    fail "--init: $init: has no tokenizer.json; name one with --tokenizer"
fi
case ${model:-bert-tiny} in
  bert-tiny) preset=(2 2 128) ;;
  bert-base) preset=(12 12 768) ;;
  bert-large) preset=(24 16 1024) ;;
  *) fail "--model is '$model': bert-tiny, bert-base or bert-large" ;;
esac
layers=${layers:-${preset[0]}} heads=${heads:-${preset[1]}} width=${width:-${preset[2]}}
positions=${positions:-512} vocabulary=${vocabulary:-30522}
if [[ -z $hidden ]]; then hidden=$((4 * width)); fi
if [[ -z $labels && -n $data ]]; then
  # Whole numbers: the largest and one more; names: as many as there are. The trainer checks each line.
  labels=$(awk -F'\t' '{ sub(/\r$/, ""); gsub(/^ +| +$/, "", $2) }
    NF < 2 || (NR == 1 && $2 == "label") { next }
    $2 !~ /^(0|[1-9][0-9]*)$/ || $2 + 0 > 65535 { names = 1 }
    { if ($2 + 0 > most) most = $2 + 0; if (!($2 in seen)) { seen[$2]; n++ } }
    END { n = names ? n : most + 1; print (n > 2 ? n : 2) }' <"$data")  # awk takes a name with '=' for a variable
fi
labels=${labels:-2}
[[ $((width % heads)) -eq 0 ]] || fail "--width $width is not divisible by --heads $heads"
[[ $length -ge 3 && $length -le $positions ]] || fail "--length must be 3 to the model's $positions positions"
[[ $labels -ge 2 ]] || fail "--labels must be 2 or more"
case $precision in
  fp32 | bf16_mixed | bf16_stream | bf16_gradients | fp16_mixed | bf16_pure | fp64) ;;
  tf32) [[ $device == cuda ]] || fail "--precision $precision is for --device cuda" ;;
  *) fail "--precision is '$precision': fp32, bf16_mixed, bf16_stream, bf16_gradients, fp16_mixed, bf16_pure or fp64" ;;
esac
case $optimizer in
  adamw | sgd | lion | any_precision_adamw) ;;
  adafactor | adamw_8bit | muon)
    [[ $precision != fp64 ]] || fail "--optimizer $optimizer makes its steps in float; give another --precision" ;;
  *) fail "--optimizer is '$optimizer': adamw, sgd, lion, adafactor, adamw_8bit, any_precision_adamw or muon" ;;
esac
cuda=(-DGRADUS_CUDA=OFF)
case $device in
  cpu) ;;
  cuda)
    check_cuda "$plan"
    cuda=(-DGRADUS_CUDA=ON "-DGRADUS_CUDA_PTX=${GRADUS_CUDA_LAUNCHER:+ON}")
    if [[ -e /dev/nvidiactl || -e /dev/dxg ]]; then cuda+=(-DCMAKE_CUDA_ARCHITECTURES=native); fi ;;
  *) fail "--device is '$device': cpu or cuda" ;;
esac

gradus_setup build
build=$root/build/bert/l$layers-h$heads-w$width-$hidden-p$positions-v$vocabulary-c$labels-t$length-b$batch
build+=-$precision-$optimizer-$device
if ! { mkdir -p "$build" && : >>"$build/lock"; } 2>/dev/null; then
  echo "train-bert.sh: $build: cannot be written, and the trainer is compiled there;" \
    "copy the project to a folder of your own" >&2
  exit 1
fi
exec {building}>"$build/lock"  # one at a time in one folder
if command -v flock >/dev/null; then flock "$building"; fi
program=$build/examples/bert/bert_train
[[ -x $program ]] || echo "compiling for these sizes: a minute or two"
if ! {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${cuda[@]}" -DGRADUS_BUILD_TESTS=OFF \
    -DGRADUS_BUILD_BENCHMARKS=OFF -DBERT_LAYERS="$layers" -DBERT_HEADS="$heads" -DBERT_WIDTH="$width" \
    -DBERT_HIDDEN="$hidden" -DBERT_POSITIONS="$positions" -DBERT_VOCABULARY="$vocabulary" -DBERT_LABELS="$labels" \
    -DBERT_LENGTH="$length" -DBERT_BATCH="$batch" -DBERT_PRECISION="$precision" -DBERT_OPTIMIZER="$optimizer" \
    -DBERT_DEVICE="$device" &&
    cmake --build "$build" --target bert_train
} >"$build/build.log" 2>&1; then
  grep -E 'error|Error' "$build/build.log" | head -n 5 >&2 || true
  echo "train-bert.sh: the trainer could not be compiled; see $build/build.log" >&2
  exit 1
fi
exec {building}>&-
launcher=()
if [[ $device == cuda ]]; then read -ra launcher <<<"${GRADUS_CUDA_LAUNCHER:-}"; fi
exec ${launcher[@]+"${launcher[@]}"} "$program" ${passed[@]+"${passed[@]}"}
