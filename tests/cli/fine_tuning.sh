#!/usr/bin/env bash
# fine_tuning.sh TRAIN CONVERT TOKENS GRADUS TOKENIZERS WORK: --init as a user meets it. The programs are compiled for
# the model called tiny. tests/parity/compare_fine_tuning.py does the same with transformers on the other side.
set -euo pipefail
[[ $# -eq 6 ]] || { echo "usage: $0 TRAIN CONVERT TOKENS GRADUS TOKENIZERS WORK" >&2; exit 2; }
train=$1 convert=$2 tokens=$3 gradus=$4 tokenizers=$5 work=$6
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"
losses() { sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$1/log.jsonl"; }
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
for _ in $(seq 300); do echo "sphinx of black quartz, judge my vow"; done >other
quick=("$train" --sample 0 --eval-every 1 --threads 2)
succeeds "${quick[@]}" --data text --steps 20 --lr 3e-3 --out run
model=run/model.safetensors

# The weights alone: a step of next to nothing leaves them as they were.
succeeds "${quick[@]}" --init $model --data other --steps 1 --lr 1e-40 --weight-decay 0 --out same
has out '^starting from run/model.safetensors$'
cmp -s same/model.safetensors $model || wrong "a run does not start from the weights that --init names"

# A run's folder, what gpt_convert wrote, and a folder of Hugging Face's, whole or in parts, are the same model.
succeeds "$convert" $model --out theirs
succeeds "$convert" theirs --out back.safetensors
cp -r theirs parts
mv parts/model.safetensors parts/model-00001-of-00001.safetensors
grep -aoE '"transformer[^"]*"' theirs/model.safetensors |
  awk '{ print (NR > 1 ? "," : "{\"weight_map\": {") $0 ": \"model-00001-of-00001.safetensors\"" } END { print "}}" }' \
    >parts/model.safetensors.index.json
succeeds "${quick[@]}" --init run --data other --steps 3 --out tuned
has tuned/config '^lr = 0.0001$'  # a tenth of AdamW's
has tuned/config "^init = $PWD/run\$"
for from in back.safetensors theirs parts; do
  succeeds "${quick[@]}" --init $from --data other --steps 3 --out "of_$from"
  has out "^starting from $from\$"
  [[ $(losses "of_$from") == "$(losses tuned)" ]] || wrong "--init $from is another model than --init run"
  cmp -s "of_$from/model.safetensors" tuned/model.safetensors ||
    wrong "--init $from comes to other weights than --init run"
done
[[ $(losses tuned) != "$(losses run | head -n 3)" ]] || wrong "a fine-tuned run has the losses of a new one"
[[ ! -e tuned/tokenizer.json && ! -e of_theirs/tokenizer.json ]] || wrong "tokens that are bytes got a tokenizer"

# It is resumed without the model that it started from, to the same bits, and repeated with it.
steady=(--data other --schedule constant --warmup 0)
mkdir once
cp $model once
succeeds "${quick[@]}" --init once "${steady[@]}" --steps 4 --out whole
succeeds "${quick[@]}" --init once "${steady[@]}" --steps 2 --out halves
succeeds "$train" --config whole/config --out repeated
cmp -s repeated/model.safetensors whole/model.safetensors ||
  wrong "the configuration of a fine-tuned run does not repeat it"
rm -r once
succeeds "$train" --config halves/config --resume halves --steps 4
cmp -s halves/model.safetensors whole/model.safetensors || wrong "a fine-tuned run that was resumed has other weights"
has halves/config "^init = $PWD/once\$"

# The tokenizer of a model is taken over: here one whose tokens 97 and 98 are b and a.
sed -e 's/^ *"a": 97,$/"a": swap,/; s/"b": 98/"b": 97/; s/swap/98/' theirs/tokenizer.json >swapped.json
cp -r theirs words
cp swapped.json words/tokenizer.json
succeeds "${quick[@]}" --init words --data other --steps 1 --out by_words
grep -q '"b": 97' by_words/tokenizer.json || wrong "the run has another tokenizer than the model that it started from"
succeeds "$tokens" --data other --tokenizer words/tokenizer.json --separator '' --out shards
succeeds "${quick[@]}" --init words --data shards --steps 1 --out by_shards
[[ $(losses by_shards) != "$(losses tuned | head -n 1)" ]] || wrong "a's and b's that changed places change no loss"
# The same, given twice.
succeeds "${quick[@]}" --init words --tokenizer swapped.json --data other --steps 1 --out by_copy
refuses 1 '^gpt_train: --init: theirs: its tokenizer is another than that of the data; leave out --tokenizer$' \
  "${quick[@]}" --init theirs --tokenizer swapped.json --data other
refuses 1 '^gpt_train: --init: theirs: its tokenizer is another than that of the data; make the shards with its tokenizer.json$' \
  "${quick[@]}" --init theirs --data shards
rm words/tokenizer.json
refuses 1 'gpt_train: --init: words: has no tokenizer.json; name one with --tokenizer' \
  "${quick[@]}" --init words --data other

# What is no model to start from, or another one.
mkdir empty torch bert larger
refuses 1 '^gpt_train: --init: nowhere: no such file or folder$' "${quick[@]}" --init nowhere --data other
refuses 1 '^gpt_train: --init: empty: has neither config.json, .*, nor model.safetensors' \
  "${quick[@]}" --init empty --data other
refuses 1 'text: .*not a safetensors file' "${quick[@]}" --init text --data other
refuses 1 'theirs/model.safetensors: no model of this program: it names no layers' \
  "${quick[@]}" --init theirs/model.safetensors --data other
refuses 2 "--init must be a model.safetensors, a .gguf file, or the folder .*, not ''" \
  "${quick[@]}" --init '' --data other
cp theirs/{config,tokenizer}.json torch
: >torch/pytorch_model.bin
refuses 1 "^gpt_train: torch: has pytorch_model.bin and no model.safetensors, which transformers makes of it: python3 -c '" \
  "${quick[@]}" --init torch --data other
sed 's/"width":"128"/"width":"256"/' $model >larger/model.safetensors
refuses 1 'larger/model.safetensors: its width is 256, and this program was compiled for 128' \
  "${quick[@]}" --init larger --data other
compgen -G 'runs' >/dev/null && wrong "a run that was refused has a folder"

# gradus train takes the sizes from the model, and says what is wrong before it compiles.
for from in run $model theirs parts; do
  refuses 2 "^gradus train: --layers 6: the model of --init, $from.*, has 4; leave it out\$" \
    "$gradus" train --init $from --layers 6 --data other
done
refuses 2 '--vocabulary 300: the model of --init, theirs, has 256; leave it out' \
  "$gradus" train --init theirs --vocabulary 300 --data other
refuses 2 '--init and --model: give one of them' "$gradus" train --init theirs --model tiny --data other
refuses 2 '--init and --resume: give one of them' "$gradus" train --init theirs --resume run
refuses 2 '--init: nowhere: no such file or folder' "$gradus" train --init nowhere --data other
refuses 2 '--init: empty: has neither config.json' "$gradus" train --init empty --data other
refuses 2 '--init: text: .*not a safetensors file' "$gradus" train --init text --data other
refuses 2 '--init: theirs/model.safetensors: does not say its layers' \
  "$gradus" train --init theirs/model.safetensors --data other
refuses 2 '--init: torch: has pytorch_model.bin and no model.safetensors, which transformers makes of it: python3 -c ' \
  "$gradus" train --init torch --data other
refuses 2 '--init: words: has no tokenizer.json; name one with --tokenizer' "$gradus" train --init words --data other
refuses 2 '--init: theirs: its vocabulary is 256, and .*tokenizer.json has 700 tokens' \
  "$gradus" train --init theirs --tokenizer "$tokenizers/tokenizer.json" --data other
sed 's/"gpt2"/"bert"/' theirs/config.json >bert/config.json
cp $model bert
refuses 2 "--init: bert/config.json: 'model_type' is \"bert\" where \"gpt2\", \"llama\", .* is needed" \
  "$gradus" train --init bert --data other
sed 's/"vocab_size": 256/"vocab_size": 61/' theirs/config.json >bert/config.json
refuses 2 "--init: bert/config.json: its vocabulary is 61, and this trainer's is 256 or more" \
  "$gradus" train --init bert --data other
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
