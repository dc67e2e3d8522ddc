#!/usr/bin/env bash
# Trains a GPT (or a Llama) on your text, on this machine: installs what is
# missing, compiles the trainer for the model's sizes, runs it.
#
#   scripts/train.sh                                  # tiny, on a public-domain text, about 4 minutes
#   scripts/train.sh --data book.txt --minutes 10     # your own text
#   scripts/train.sh --model nano --steps 2000 --out runs/nano
#   mpirun -n 4 scripts/train.sh ...                  # 4 processes, on one machine or several
#
#   --data FILE...    text files, or token shards (*.bin) or a folder of them
#                     (default: the King James Bible, from Debian's bible-kjv)
#   --tokenizer FILE  tokenizer.json that makes tokens of the texts (default:
#                     bytes), or made the shards (default: their folder's)
#   --validation-data FILE...
#                     texts or shards for validation (default: val*.bin of a
#                     folder, or the last --validation SHARE, 0.1)
#   --model NAME      tiny (default), nano, seed, gpt2 or gpt2-medium; of Llamas
#                     llama-tiny, llama-15m or llama-1b
#   --architecture NAME
#                     gpt2 (default) or llama: what kind of model has the sizes;
#                     those of --model llama-... are a llama's anyway
#   --layers N, --heads N, --width N, --context N, --batch N, --vocabulary N
#                     change one size of the model; --batch is sequences a step;
#                     the vocabulary is that of a tokenizer.json, if there is one
#   --experts N, --experts-per-token N
#                     of a gpt2: each block has N MLPs in place of one, of which a
#                     token takes some (2), which together are as wide as the one
#   --kv-heads N, --hidden N, --tied 0|1
#                     of a llama: heads of keys and values (default: --heads),
#                     features inside the MLP (8/3 of the width), and whether the
#                     head is the token table (1)
#   --device NAME     what it trains on: cpu (default) or cuda, an NVIDIA GPU,
#                     which takes the CUDA toolkit (nvcc, cuBLASLt); of several
#                     GPUs the first, or by number: cuda:1
#   --precision NAME  what parameters are stored in and products computed in: fp32
#                     (default), bf16_mixed and fp16_mixed (parameters in fp32,
#                     products in 16 bits), bf16_stream (what blocks add up too),
#                     bf16_gradients (gradients too), bf16_pure (parameters too)
#                     or fp64; on a GPU also tf32 and fp8_mixed (products of
#                     linear layers in FP8)
#   --optimizer NAME  adamw (default), sgd (with momentum), lion, adafactor,
#                     adamw_8bit, any_precision_adamw or muon
#   --schedule NAME   learning rate after the warm-up: cosine (default), constant,
#                     linear or wsd
#   --steps N         optimizer steps
#   --batch-tokens N  tokens an update: as many batches are accumulated as come
#                     nearest; without --batch, --memory-budget decides how large
#                     a batch is (the largest that fits with nothing computed
#                     again)
#   --minutes M       time to train; the learning rate follows the clock (tiny: 4,
#                     if --steps is not given)
#   --seed N          of the weights and the batches
#   --checkpoint WHAT activations that are computed again at backward instead of
#                     kept: none (default), blocks, attention, matmul,
#                     keep:OPERATION,... or drop:OPERATION,...
#   --memory-budget S most memory, such as 600MiB; what is computed again is
#                     chosen for speed
#   --memory-report F a picture of a step's memory, planned and measured: F.html,
#                     or F.json for Perfetto
#   --init WHAT       start from the weights of a model, of its sizes and with its
#                     tokenizer: a model.safetensors of a run or of gpt_convert,
#                     the folder of a run, or one of Hugging Face's GPT-2 or Llama
#                     (config.json, model.safetensors, tokenizer.json); data,
#                     batch, steps and the rest are this run's own (--batch: 8 by
#                     default, --lr: a tenth of the optimizer's; --context of a
#                     Llama: at most its own, 1024 by default)
#   --resume DIR      resume the run in this folder from its last checkpoint, as
#                     if it had not been interrupted, with the flags it was
#                     started with; flags that are given override them
#   --config FILE     flags from a file of lines 'name = value', such as
#                     runs/mine/config, which repeats that run; flags that are
#                     given override them
#   --ranks N         N ranks, a power of two, share the work: threads of this
#                     process, or one on each of N GPUs. Under mpirun or srun the
#                     ranks are its processes, without this flag
#   --leaves N        parts of an update whose gradients are summed in a fixed
#                     order, a power of two: runs of the same leaves have the same
#                     bits on 1, 2, ... N ranks
#   --shard NAME      what each rank has only its part of: nothing (default),
#                     states (of the optimizer), gradients (these too) or
#                     parameters (all three)
#   --sums NAME       how gradients are summed over ranks: tree (default), which
#                     has the same bits on any number of them, or fastest
#   --profile         say at the end where the time of the steps went, by
#                     operation; also in profile.txt of the run folder
#   --plan            say what memory the run would take (and write
#                     --memory-report), train nothing
#   --help            this text
#
# These go to the trainer as they are: --lr, --warmup, --weight-decay, --clip,
# --dropout, --threads, --workers, --accumulate, --order, --out, --eval-every,
# --sample, --save-every, --keep-checkpoints, --save-retry, --no-save,
# --tensorboard, --anomaly, --graph, --tune-products.
#
# The run folder (--out, default runs/<date>-<time>) gets log.jsonl, loss.svg,
# config, checkpoint.safetensors, which is saved every few minutes and when the
# run is told to end (Ctrl-C), with the one before (--keep-checkpoints N: with
# N - 1 before), best.safetensors, the model that did best on the validation
# text, and at the end model.safetensors. The compiled trainer stays in
# build/train/<sizes>-<precision>, and -llama-<sizes>, -<experts>, -<optimizer> if it is not
# adamw, -cuda if it is for a GPU and -mpi if mpirun or srun started it, with
# gpt_sample beside it, which writes more text.
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: launched_rank number given given_judged huggingface longest context length vocabulary help
# numbers: plan device cuda gpus largest width heads kv_heads experts experts_per_token i began batch_tokens batch
# numbers: started
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"
source "$root/scripts/trainer.sh"

fail() {
  let_first_fail
  gradus_complain "train.sh: ${origin:-}$*"
  exit 2
}
# Of the processes that mpirun or srun started, the first one prints. Another one reports what it alone finds wrong: it
# waits, and is ended if the first one has failed.
let_first_fail() { if [[ $launched_rank -gt 0 ]]; then sleep 3; fi; }
gradus_launched
exec 3>&1
if [[ $launched_rank -gt 0 ]]; then exec >/dev/null; fi
usage() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" | fold -s -w "$(columns)"; }
columns() {
  local wide=${COLUMNS:-$(tput cols 2>/dev/null || echo 80)}
  if [[ $wide =~ ^[1-9][0-9]{0,3}$ ]]; then echo "$wide"; else echo 80; fi
}

model="" architecture="" precision="" optimizer="" device="" tokenizer="" help=0 plan=0
resume="" init="" origin="" config=""
layers="" heads="" width="" context="" batch="" vocabulary="" kv_heads="" hidden="" tied=""
experts="" experts_per_token=""
steps="" minutes="" lr="" sample="" warmup="" batch_tokens=""
data=() judged=() passed=()
# words_of FILE: the flags in a file of lines 'name = value', in the array words.
words_of() {
  local line number=0 name value names=" "
  words=()
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    line=${line%$'\r'}
    [[ $line =~ ^[[:blank:]]*(#.*)?$ ]] && continue
    [[ $line =~ ^[[:blank:]]*([a-z0-9-]+)[[:blank:]]*=[[:blank:]]*(.*)$ ]] ||
      fail "line $number: must be 'name = value', not '${line:0:60}'"
    name=${BASH_REMATCH[1]} value=${BASH_REMATCH[2]}
    value=${value%"${value##*[![:space:]]}"}
    if [[ $value == \"*\" && ${#value} -ge 2 ]]; then value=${value:1:${#value}-2}; fi
    [[ $names != *" $name "* || $name == data || $name == validation-data ]] ||
      fail "line $number: $name stands there twice"
    names+="$name "
    case $name=$value in
      save=false) words+=(--no-save) ;;
      save=true | profile=true | tensorboard=true | anomaly=true | graph=true) words+=("--$name") ;;
      profile=false | tensorboard=false | anomaly=false | graph=false) ;;
      save=* | profile=* | tensorboard=* | anomaly=* | graph=*)
        fail "line $number: $name is true or false, not '${value:0:60}'" ;;
      help=* | resume=* | config=* | out=* | plan=*) fail "line $number: $name is for the command line" ;;
      *) words+=("--$name" "$value") ;;
    esac
  done <"$1"
}
# Drops what a flag that is given takes the place of from `passed`: without FLAG... VALUE.
without() {
  local kept=() name
  while [[ ${#passed[@]} -gt 0 ]]; do
    for name in "$@"; do
      if [[ ${passed[0]} == "$name" ]]; then passed=("${passed[@]:2}"); continue 2; fi
    done
    kept+=("${passed[0]}")
    passed=("${passed[@]:1}")
  done
  passed=("${kept[@]+"${kept[@]}"}")
}
without_switch() {
  local kept=() word
  for word in "${passed[@]+"${passed[@]}"}"; do [[ $word == "$1" ]] || kept+=("$word"); done
  passed=("${kept[@]+"${kept[@]}"}")
}
# Reads flags; where a run is resumed, first those it was started with, and then those that are given.
read_flags() {
  local given=0 given_judged=0 name  # files of flags given count anew in every call
  while [[ $# -gt 0 ]]; do
    # --flag=value reads like --flag value
    if [[ $1 == --*=* ]]; then set -- "${1%%=*}" "${1#*=}" "${@:2}"; fi
    case $1 in
      -h | --help) help=1; shift ;;
      --data)
        shift
        [[ -n ${1:-} && $1 != --* ]] || fail "--data needs the name of a text file"
        if [[ $given -eq 0 ]]; then data=() given=1; fi
        while [[ $# -gt 0 && $1 != --* ]]; do data+=("$1"); shift; done ;;
      --validation-data)
        shift
        [[ -n ${1:-} && $1 != --* ]] || fail "--validation-data needs the name of a file"
        if [[ $given_judged -eq 0 ]]; then judged=() given_judged=1; fi
        while [[ $# -gt 0 && $1 != --* ]]; do judged+=("$1"); shift; done ;;
      --model | --architecture | --precision | --optimizer | --device | --layers | --heads | --width | --context | \
        --batch | --vocabulary | --experts | --experts-per-token | --kv-heads | --hidden | --tied | --tokenizer | \
        --steps | --minutes | --lr | \
        --sample | --warmup | --batch-tokens)
        [[ -n ${2:-} && $2 != --* ]] || fail "$1 needs a value"
        check_value "$1" "$2"
        name=${1#--}
        printf -v "${name//-/_}" %s "$2"
        shift 2 ;;
      --init)
        [[ -n ${2:-} && $2 != --* ]] ||
          fail "--init needs a model.safetensors, or the folder of a run or of Hugging Face's"
        init=$2
        shift 2 ;;
      --config)
        [[ -n ${2:-} && $2 != --* ]] || fail "--config needs the name of a file"
        [[ -z $config || $config == "$2" ]] || fail "--config: give one file"
        config=$2
        shift 2 ;;
      --resume)
        [[ -n ${2:-} && $2 != --* ]] || fail "--resume needs the folder of a run"
        resume=$2
        shift 2 ;;
      --save | --no-save | --profile | --tensorboard | --anomaly | --graph) passed+=("$1"); shift ;;
      --plan) plan=1; passed+=("$1"); shift ;;
      --schedule | --checkpoint | --memory-budget | --memory-report | --seed | --weight-decay | --clip | --dropout | \
        --threads | --workers | --accumulate | --order | --validation | --out | --eval-every | --save-every | \
        --save-retry | --keep-checkpoints | --tune-products | --ranks | --leaves | --shard | --sums)
        [[ -n ${2:-} && $2 != --* ]] || fail "$1 needs a value"
        check_value "$1" "$2"
        without "$1"
        # How many ranks an earlier run had binds nobody.
        if [[ $1 != --ranks || -z $launched_ranks || -z $origin ]]; then passed+=("$1" "$2"); fi
        shift 2 ;;
      *) fail "unknown argument '$1'; --help lists what there is" ;;
    esac
  done
}
# read_init: takes the sizes from what --init names. Of a run's folder, `init` becomes the model in it, as
# scripts/sample.sh chooses it.
read_init() {
  local file=$init huggingface=0 name names variable value found length longest
  [[ -e $init ]] || fail "--init: $init: no such file or folder"
  if [[ -f $init/config.json ]]; then
    file=$init/config.json huggingface=1
    if [[ ! -e $init/model.safetensors && ! -e $init/model.safetensors.index.json ]]; then
      [[ ! -e $init/pytorch_model.bin && ! -e $init/pytorch_model.bin.index.json ]] ||
        fail "--init: $init: has pytorch_model.bin and no model.safetensors, which transformers makes of it:" \
          "python3 -c 'from transformers import AutoModelForCausalLM as M;" \
          "M.from_pretrained(\"$init\").save_pretrained(\"$init\")'"
      fail "--init: $init: has no model.safetensors"
    fi
  elif [[ -d $init ]]; then
    file=""
    for name in model best checkpoint; do
      if [[ $name == model && $init/checkpoint.safetensors -nt $init/model.safetensors ]]; then continue; fi
      if [[ -z $file && -f $init/$name.safetensors ]]; then file=$init/$name.safetensors; fi
    done
    [[ -n $file ]] ||
      fail "--init: $init: has neither config.json, as a model of Hugging Face's, nor model.safetensors, as a run"
    init=$file
  fi
  [[ -r $file ]] || fail "--init: $file: cannot be read: Permission denied"
  if [[ $huggingface -eq 1 ]]; then
    names="n_layer n_head n_embd n_positions vocab_size model_type num_hidden_layers num_attention_heads hidden_size"
    names+=" max_position_embeddings num_key_value_heads intermediate_size tie_word_embeddings"
    found=$(tr -d '[:space:]' <"$file" | grep -oE "[{,]\"(${names// /|})\":(\"[^\"]*\"|[0-9]+|true|false)" |
      tr -d '"{,' | sed -e 's/^n_layer:/layers:/; s/^n_head:/heads:/; s/^n_embd:/width:/; s/^n_positions:/context:/' \
        -e 's/^vocab_size:/vocabulary:/; s/^model_type:/architecture:/; s/^num_hidden_layers:/layers:/' \
        -e 's/^num_attention_heads:/heads:/; s/^hidden_size:/width:/; s/^num_key_value_heads:/kv-heads:/' \
        -e 's/^intermediate_size:/hidden:/; s/^tie_word_embeddings:false/tied:0/' \
        -e 's/^tie_word_embeddings:true/tied:1/; s/^max_position_embeddings:/longest:/' || true)
    found=$'\n'$found$'\n'
    case $found in
      *$'\narchitecture:gpt2\n'*) found=${found//$'\n'tied:[01]/} ;;  # always one table
      *$'\narchitecture:llama\n'*)
        longest=2048
        if [[ $found == *$'\nlongest:'* ]]; then
          longest=${found#*$'\nlongest:'}
          longest=${longest%%$'\n'*}
        fi
        [[ $longest =~ ^[1-9][0-9]{0,8}$ ]] || fail "--init: $file: its max_position_embeddings is '$longest'"
        if [[ -z $context ]]; then context=$((longest < 1024 ? longest : 1024)); fi
        [[ $context -le $longest ]] || fail "--context $context: the model of --init, $init, has $longest"
        [[ $found == *$'\ntied:'* ]] || found+=$'tied:0\n' ;;
      *) fail "--init: $file: is not of a GPT-2 or a Llama: its model_type must be \"gpt2\" or \"llama\"" ;;
    esac
  else
    # The header: its length in eight bytes, and JSON, with the sizes among the metadata.
    length=$(od -An -N8 -tu8 -- "$file" | tr -d ' ')
    [[ $length =~ ^[0-9]{1,8}$ ]] || fail "--init: $file: is not a safetensors file"
    found=$(head -c $((8 + length)) -- "$file" | tail -c +9 | tr -d '[:space:]\0' |
      grep -aoE '"((layers|heads|width|context|vocabulary|experts|experts-per-token|kv-heads|hidden|tied)":"[0-9]+|model":"gradus[a-z]+)"' |
      tr -d '"' | sed 's/^model:gradusgpt$/architecture:gpt2/; s/^model:gradus/architecture:/' || true)
  fi
  while IFS=: read -r name value; do
    if [[ -z $name || $name == longest ]]; then continue; fi
    [[ " architecture $(gradus_sizes llama) experts experts-per-token kv-heads " == *" $name "* ]] ||
      fail "--init: $file: its $name cannot be $value"
    variable=${name//-/_}
    if [[ $name != architecture ]]; then origin="--init: $file: its " check_value "--$name" "$value"; fi
    [[ -z ${!variable} || ${!variable} == "$value" ]] ||
      fail "--$name ${!variable}: the model of --init, $init, has $value; leave it out"
    printf -v "$variable" %s "$value"
  done <<<"$found"
  [[ -z $experts || $found == *experts:* ]] ||
    fail "--experts $experts: the model of --init, $init, has one MLP for all tokens; leave it out"
  [[ -z $vocabulary || $vocabulary -ge 256 ]] ||
    fail "--init: $file: its vocabulary is $vocabulary, and this trainer's is 256 or more"
  if [[ ${architecture:=gpt2} == llama ]]; then kv_heads=${kv_heads:-$heads}; fi
  for name in $(gradus_sizes "$architecture"); do
    [[ -n ${!name} ]] ||
      fail "--init: $file: does not say its $name; name a model of a run, its folder, or that of a Hugging Face GPT-2" \
        "or Llama"
  done
}
read_flags "$@"
fixed=(model architecture layers heads width context vocabulary experts experts_per_token kv_heads hidden tied batch
  precision optimizer)
[[ -z $resume || -z $init ]] || fail "--init and --resume: give one of them; a resumed run has its weights"
[[ -z $resume || -z $config ]] || fail "--config and --resume: give one of them; a resumed run has a configuration"
if [[ -n $resume && $help -eq 0 ]]; then
  [[ -d $resume ]] || fail "--resume: $resume: no such folder"
  config=$resume/config
  [[ -e $config || ! -f $resume/flags ]] ||
    fail "--resume: $resume: a run of an earlier version, which had a file 'flags' in place of 'config';" \
      "this version cannot resume it"
  [[ -f $config && -r $config ]] || fail "--resume: $resume: no run of train.sh: it has no file 'config'"
  for name in "${fixed[@]}"; do
    [[ -z ${!name} ]] ||
      fail "--${name//_/-}: a resumed run keeps the model, the precision and the optimizer that it began with; leave it out"
  done
  [[ " ${passed[*]-} " != *" --out "* ]] ||
    fail "--out and --resume: give one of them; a resumed run stays in its folder"
fi
if [[ -n $config && $help -eq 0 ]]; then
  [[ -e $config ]] || fail "--config: $config: no such file"
  [[ ! -d $config ]] || fail "--config: $config: is a directory; name a file"
  [[ -f $config ]] || fail "--config: $config: is not a plain file"
  [[ -r $config ]] || fail "--config: $config: cannot be read: Permission denied"
  if [[ -n $resume ]]; then origin="$config: "; else origin="--config: $config: "; fi
  words_of "$config"
  given=("$@")
  words_given=" ${*//=/ } "  # --flag=value as --flag value
  limits=$steps$minutes  # how long the run is: either takes the place of both
  other_batches=$batch_tokens
  memory=" ${passed[*]-} "
  for name in "${fixed[@]}" device; do printf -v "$name" %s ""; done
  passed=() data=() judged=() tokenizer="" init="" steps="" minutes="" lr="" sample="" warmup="" batch_tokens=""
  read_flags "${words[@]+"${words[@]}"}"
  if [[ -n $resume ]]; then
    architecture=${architecture:-gpt2}  # of runs of earlier versions, too
    for name in $(gradus_sizes "$architecture") batch precision optimizer; do
      [[ -n ${!name} ]] || fail "it does not say $name; is it the file of a run?"
    done
    [[ ${#data[@]} -gt 0 ]] || fail "it says no data; is it the file of a run?"
  fi
  origin=""
  # Sizes, rates and files that belong to what is given otherwise.
  if [[ $words_given == *" --model "* ]]; then
    architecture="" layers="" heads="" width="" context="" vocabulary="" kv_heads="" hidden="" tied=""
    experts="" experts_per_token="" batch="" lr="" sample="" init=""
  fi
  if [[ $words_given == *" --init "* ]]; then
    architecture="" layers="" heads="" width="" context="" vocabulary="" kv_heads="" hidden="" tied="" tokenizer=""
    experts="" experts_per_token=""
  fi
  if [[ $words_given == *" --optimizer "* ]]; then lr=""; fi
  if [[ $words_given == *" --anomaly "* ]]; then without_switch --profile; fi
  if [[ $words_given == *" --profile "* ]]; then without_switch --anomaly; fi
  if [[ $words_given == *" --device cpu "* ]]; then without_switch --graph; without --tune-products; fi
  without --memory-report  # no file says which one is overwritten; that run's report was its own
  if [[ -n $limits ]]; then steps="" minutes=""; fi
  # One takes the place of the other.
  if [[ $memory == *" --checkpoint "* || $memory == *" --memory-budget "* ]]; then
    without --checkpoint --memory-budget
  fi
  if [[ $memory == *" --accumulate "* ]]; then batch_tokens=""; fi
  if [[ -n $other_batches ]]; then without --accumulate; fi
  if [[ $memory == *" --validation "* ]]; then judged=(); fi
  if [[ ${#judged[@]} -gt 0 || " ${given[*]-} " == *" --validation-data "* ]]; then without --validation; fi
  read_flags "${given[@]}"
  if [[ -n $resume ]]; then passed+=(--resume "$resume"); fi
fi
if [[ $help -eq 1 ]]; then usage; exit 0; fi
# The model that --init names says the sizes. A run that is resumed has them in its configuration, and has read that
# model.
if [[ -n $init && -z $resume ]]; then
  [[ -z $model ]] || fail "--init and --model: give one of them; the sizes are those of the model in $init"
  read_init
else
  model=${model:-tiny}  # without one, the sizes are those of --init
fi
precision=${precision:-fp32} optimizer=${optimizer:-adamw} device=${device:-cpu}

# A model: its sizes, and a learning rate and a length of sample that suit them.
#           layers heads width context vocabulary batch lr  sample kv-heads hidden tied
case $model in
  tiny)        preset=(4  4  128  128  256   16 3e-3 400) ;;
  nano)        preset=(6  6  384  256  256   12 1e-3 400) ;;
  seed)        preset=(4  4  256  512  50257 8  1e-3 300) ;;
  gpt2)        preset=(12 12 768  1024 50257 8  6e-4 0) ;;
  gpt2-medium) preset=(24 16 1024 1024 50257 8  3e-4 0) ;;
  llama-tiny)  preset=(4  4  128  128  256    16 3e-3 400 2 384  1) ;;
  llama-15m)   preset=(6  6  288  256  32000  8  1e-3 300 6 768  1) ;;  # of llama2.c
  llama-1b)    preset=(16 32 2048 2048 128256 1  3e-4 0   8 8192 1) ;;  # Llama 3.2 1B
  "")          preset=("" "" "" "" "" 8 "" 300) ;;
  *) fail "--model is '$model': tiny, nano, seed, gpt2, gpt2-medium, llama-tiny, llama-15m or llama-1b" ;;
esac
if [[ $model == llama-* ]]; then
  [[ ${architecture:-llama} == llama ]] || fail "--model $model is a Llama: leave out --architecture $architecture"
  architecture=llama
fi
architecture=${architecture:-gpt2}
gradus_sizes "$architecture" >/dev/null || fail "--architecture is '$architecture': gpt2 or llama"
if [[ $device =~ ^cuda:[0-9]{1,3}$ ]]; then
  passed+=(--device "$device")
  # A GPU that is not there, before a minute of compiling; where CUDA_VISIBLE_DEVICES renumbers them, the trainer says
  # it.
  if [[ -z ${GRADUS_CUDA_LAUNCHER:-}${CUDA_VISIBLE_DEVICES:-} && $plan -eq 0 ]] &&
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU'); then
    [[ $((10#${device#cuda:})) -lt $gpus ]] ||
      fail "--device $device: the $gpus GPU(s) of this machine begin with cuda:0"
  fi
  device=cuda
fi
case $device in
  cpu) ;;
  cuda) check_cuda "$plan" ;;
  *) fail "--device is '$device': cpu or cuda, or a GPU by number, such as cuda:1" ;;
esac
[[ $device == cuda || " ${passed[*]-} " != *" --graph "* ]] ||
  fail "--graph submits steps to a GPU as CUDA graphs: it is for --device cuda"
[[ $device == cuda || " ${passed[*]-} " != *" --tune-products "* ]] ||
  fail "--tune-products chooses algorithms of a GPU's library: it is for --device cuda"
case $precision in
  tf32 | fp8_mixed)
    [[ $device == cuda ]] ||
      fail "--precision $precision is for --device cuda: TF32 and FP8 are formats of NVIDIA GPUs" ;;
  fp32 | bf16_mixed | bf16_stream | bf16_gradients | fp16_mixed | bf16_pure | fp64) ;;
  *) fail "--precision is '$precision': fp32, bf16_mixed, bf16_stream, bf16_gradients, fp16_mixed, bf16_pure or" \
    "fp64; on a GPU also tf32 or fp8_mixed" ;;
esac
case $optimizer in
  adamw | sgd | lion | any_precision_adamw) ;;
  adafactor | adamw_8bit | muon)
    [[ $precision != fp64 ]] ||
      fail "--optimizer $optimizer makes its steps in float; give another --precision than fp64" ;;
  *) fail "--optimizer is '$optimizer': adamw, sgd, lion, adafactor, adamw_8bit, any_precision_adamw or muon" ;;
esac
# The presets' rates are AdamW's, and for a new model; the trainer knows others.
if [[ -z $lr && ($optimizer != adamw || -n $init) ]]; then lr=usual; fi
names=(layers heads width context vocabulary batch lr sample kv_heads hidden tied)
# A tokenizer's vocabulary: its largest id, and one more.
ids_of=$tokenizer
if [[ -z $ids_of && ${#data[@]} -eq 1 && -f ${data[0]}/tokenizer.json ]]; then ids_of=${data[0]}/tokenizer.json; fi
if [[ (-z $model || -z $vocabulary) && -r $ids_of && -f $ids_of ]]; then
  # The ids are those of the object "vocab" and each "id" of an added token; other numbers are lengths.
  largest=$(tr -d '[:space:]' <"$ids_of" |
    grep -aoE '"vocab":\{("([^"\]|\\.)*":[0-9]+,?)*\}|[{,]"id":[0-9]+[,}]' |
    grep -aoE '":[0-9]{1,6}[,}]' | grep -oE '[0-9]+' | sort -n | tail -n 1 || true)
  if [[ -z $model && -n $largest && $largest -ge $vocabulary ]]; then
    fail "--init: $init: its vocabulary is $vocabulary, and $ids_of has $((largest + 1)) tokens"
  fi
  if [[ -n $largest && $largest -ge 256 && -z $vocabulary ]]; then vocabulary=$((largest + 1)); fi
fi
batch_given=$batch
for i in "${!names[@]}"; do
  if [[ -z ${!names[i]} ]]; then printf -v "${names[i]}" %s "${preset[i]-}"; fi
done
[[ $((width % heads)) -eq 0 ]] ||
  fail "--width $width is not divisible by --heads $heads; try --width $(((width / heads + 1) * heads))"
if [[ $architecture == llama ]]; then
  kv_heads=${kv_heads:-$heads} hidden=${hidden:-$(((8 * width / 3 + 31) / 32 * 32))} tied=${tied:-1}
  [[ $((heads % kv_heads)) -eq 0 ]] || fail "--heads $heads is not divisible by --kv-heads $kv_heads"
  [[ $((width / heads % 2)) -eq 0 ]] ||
    fail "--width $width / --heads $heads is $((width / heads)): a llama turns pairs, and its heads must be even"
else
  for name in kv_heads hidden tied; do
    [[ -z ${!name} ]] || fail "--${name//_/-} is for --architecture llama"
  done
fi
if [[ -n $experts$experts_per_token ]]; then
  [[ $architecture == gpt2 ]] || fail "--experts is for --architecture gpt2"
  [[ -n $experts ]] || fail "--experts-per-token is for a model with --experts"
  experts_per_token=${experts_per_token:-$((experts < 2 ? experts : 2))}
  [[ $experts_per_token -le $experts ]] || fail "--experts-per-token $experts_per_token: there are $experts experts"
fi
[[ $vocabulary -ge 256 ]] || fail "--vocabulary must be 256 or more, because text is read as bytes, not $vocabulary"
# The trainer says the same of flags and files, but only after it was compiled.
is_passed() {
  local word
  for word in "${passed[@]+"${passed[@]}"}"; do [[ $word != "$1" ]] || return 0; done
  return 1
}
one_of() { fail "$1 and $2: give one of them${3-}"; }
# What the blocks of the model apply: a name that is not among these is refused.
check_operations() {
  local applied="layer_norm linear causal_attention add gelu" chosen="" name names i
  if [[ -n $experts ]]; then applied+=" matmul softmax dispatch_rows grouped_matmul combine_rows logsumexp"; fi
  if [[ $architecture == llama ]]; then applied="rms_norm matmul rope attention add swiglu"; fi
  for ((i = 0; i + 1 < ${#passed[@]}; i++)); do
    case ${passed[i]} in
      --checkpoint) chosen=${passed[i + 1]} ;;
      --dropout) if [[ ${passed[i + 1]%%[eE]*} == *[1-9]* ]]; then applied+=" dropout"; fi ;;
    esac
  done
  [[ $chosen == *:* ]] || return 0
  IFS=, read -ra names <<<"${chosen#*:}"
  for name in "${names[@]}"; do
    [[ " $applied " == *" $name "* ]] ||
      fail "--checkpoint: checkpoint policy: the blocks apply nothing named '$name'; they apply ${applied// /, }"
  done
}
check_operations
if is_passed --ranks && [[ -n $launched_ranks ]]; then
  fail "--ranks: mpirun or srun has started $launched_ranks; leave it out"
fi
if [[ -n $launched_ranks ]]; then
  command -v mpicxx >/dev/null ||
    fail "mpirun or srun has started this, and there is no mpicxx to compile with" \
      "(Debian: libopenmpi-dev or libmpich-dev, the one that mpirun is of)"
fi
if is_passed --anomaly && [[ $device == cuda ]]; then
  fail "--anomaly reads everything that is computed, which is for the CPU: leave it out, or give --device cpu"
fi
if is_passed --anomaly && is_passed --profile; then one_of --anomaly --profile; fi
if is_passed --validation && [[ ${#judged[@]} -gt 0 ]]; then one_of --validation --validation-data; fi
if is_passed --accumulate && [[ -n $batch_tokens ]]; then
  one_of --accumulate --batch-tokens "; the tokens decide how many batches a step takes"
fi
if is_passed --checkpoint && is_passed --memory-budget; then
  one_of --checkpoint --memory-budget "; the budget chooses what to checkpoint"
fi
if is_passed --no-save && [[ -n $resume ]]; then one_of --resume --no-save "; a resumed run saves itself"; fi
check_files() {  # FLAG FILE...
  local flag=$1 file shards
  shift
  for file in "$@"; do
    [[ -e $file ]] || fail "$flag: $file: no such file"
    if [[ $flag == --data && $# -eq 1 && -d $file ]]; then
      shards=("$file"/*.bin)
      [[ -e ${shards[0]} ]] ||
        fail "$flag: $file: a folder without shards (*.bin); name text files, or a folder that gpt_tokens made"
      continue
    fi
    [[ ! -d $file ]] || fail "$flag: $file: is a directory; name a file"
    [[ -r $file ]] || fail "$flag: $file: cannot be read: Permission denied"
    [[ ! -f $file || -s $file ]] || fail "$flag: $file: is empty"
  done
}
check_files --data ${data[@]+"${data[@]}"}
check_files --validation-data ${judged[@]+"${judged[@]}"}
if [[ -n $tokenizer ]]; then check_files --tokenizer "$tokenizer"; fi
if [[ -z $model && -f $init/config.json && ! -e $init/tokenizer.json && -z $ids_of && ! -d ${data[0]-} &&
  ${data[0]-} != *.bin ]]; then
  fail "--init: $init: has no tokenizer.json; name one with --tokenizer"
fi
if [[ -z $steps && -z $minutes && $model == tiny ]]; then minutes=4; fi

if [[ -n $launched_ranks ]] && command -v flock >/dev/null; then  # one process of a machine at a time
  exec {installing}>"${TMPDIR:-/tmp}/gradus-setup-$UID"
  flock "$installing"
fi
if [[ ${#data[@]} -gt 0 || $plan -eq 1 ]]; then gradus_setup build; else gradus_setup train; fi

# The default text: one verse a line, an empty line between chapters, without the verse marks.
if [[ ${#data[@]} -eq 0 && $plan -eq 0 ]]; then
  text=$root/build/data/bible.txt
  if [[ ! -s $text ]]; then
    if ! mkdir -p "${text%/*}" 2>/dev/null || [[ ! -w ${text%/*} ]]; then
      let_first_fail
      echo "train.sh: ${text%/*}: cannot be written; copy the project to a folder of your own," \
        "or name a text with --data" >&2
      exit 1
    fi
    bible -f Gen1:1-Rev22:21 | awk '{
      chapter = $1; sub(/:.*/, "", chapter)
      if (NR > 1 && chapter != last) print ""
      last = chapter; sub(/^[^ ]+ /, ""); print
    }' >"$text.$$"
    mv "$text.$$" "$text"
  fi
  data=("$text")
fi
if [[ -n ${installing:-} ]]; then exec {installing}>&-; fi

# The trainer, compiled for these sizes and this precision. Where it was compiled before and nothing changed, this takes
# a second.
compile() {  # TARGET...
  gradus_trainer
  log=$build/build.log
  if ! { mkdir -p "$build" && : >>"$build/lock"; } 2>/dev/null; then
    let_first_fail
    echo "train.sh: $build: cannot be written, and the trainer is compiled there;" \
      "copy the project to a folder of your own" >&2
    exit 1
  fi
  # One at a time in one folder.
  if command -v flock >/dev/null; then
    exec {building}>"$build/lock"
    if [[ $launched_rank -gt 0 ]]; then sleep 0.2; fi  # the process that speaks compiles, where it is on this machine
    if ! flock -n "$building"; then
      echo "waiting for another train.sh, which compiles for these sizes"
      flock "$building"
    fi
  fi
  # Another process of this job has compiled them since this one began.
  if [[ -n $launched_ranks && $(cat "$build/compiled" 2>/dev/null) == "$*" &&
    $(stat -c %Y "$build/compiled") -ge $began ]]; then
    exec {building}>&-
    return
  fi
  local programs=$*
  [[ -x $build/examples/$1 ]] || echo "compiling ${programs/ / and } for these sizes: a minute or two"
  if ! {
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${definitions[@]}" &&
      cmake --build "$build" --target "$@"
  } >"$log" 2>&1; then
    let_first_fail
    grep -E 'error|Error' "$log" | head -n 5 >&2 || true
    echo "train.sh: the trainer could not be compiled; see $log" >&2
    exit 1
  fi
  if [[ -n $launched_ranks ]]; then echo "$*" >"$build/compiled"; fi
  if [[ -n ${building:-} ]]; then exec {building}>&-; fi
}
started=$SECONDS began=$(($(date +%s) - SECONDS))
if [[ -n $batch_tokens ]]; then batch_tokens=$((10#$batch_tokens)); fi
if [[ -n $batch_tokens && -z $batch_given ]]; then
  budget=""
  for ((i = 0; i + 1 < ${#passed[@]}; ++i)); do
    if [[ ${passed[i]} == --memory-budget ]]; then budget=${passed[i + 1]}; fi
  done
  if [[ -n $budget ]]; then
    compile gpt_batch
    batch=$("$build/examples/gpt_batch" --batch-tokens "$batch_tokens" --memory-budget "$budget") || exit 2
  elif [[ $((batch * context)) -gt $batch_tokens ]]; then
    batch=$((batch_tokens / context > 0 ? batch_tokens / context : 1))
  fi
fi
if [[ -n $batch_tokens && $(((batch_tokens + batch * context / 2) / (batch * context))) -gt 1000 ]]; then
  fail "--batch-tokens must be at most $((1000 * batch * context)) with this batch, not $batch_tokens"
fi
if [[ $device == cpu && -z $launched_ranks ]]; then compile gpt_train gpt_sample; else compile gpt_train; fi
echo "compiled for these sizes in $((SECONDS - started)) s"

flags=(--sample "$sample")
if [[ $lr != usual ]]; then flags+=(--lr "$lr"); fi
if [[ ${#data[@]} -gt 0 ]]; then flags+=(--data "${data[@]}"); fi
if [[ ${#judged[@]} -gt 0 ]]; then flags+=(--validation-data "${judged[@]}"); fi
if [[ -n $tokenizer ]]; then flags+=(--tokenizer "$tokenizer"); fi
if [[ -n $init ]]; then flags+=(--init "$init"); fi
if [[ -n $steps ]]; then flags+=(--steps "$steps"); fi
if [[ -n $minutes ]]; then flags+=(--minutes "$minutes"); fi
if [[ -n $batch_tokens ]]; then flags+=(--batch-tokens "$batch_tokens"); fi
if [[ -n $warmup ]]; then flags+=(--warmup "$warmup"); fi
# Of processes, the first one prints the plan of them all.
if [[ $plan -eq 1 && -n $launched_ranks ]]; then
  if [[ $launched_rank -gt 0 ]]; then exit 0; fi
  flags+=(--ranks "$launched_ranks")
fi
launcher=()
if [[ $device == cuda ]]; then read -ra launcher <<<"${GRADUS_CUDA_LAUNCHER:-}"; fi
exec ${launcher[@]+"${launcher[@]}"} "$build/examples/gpt_train" "${flags[@]}" ${passed[@]+"${passed[@]}"} >&3 3>&-
