#!/usr/bin/env bash
# generation.sh TRAIN SAMPLE EVALUATE CONVERT GRADUS TOKENIZERS WORK: gpt_sample, gpt_evaluate and gpt_convert as a user
# meets them, and what gradus sample says of folders that are no runs. The programs are compiled for the model
# called tiny.
set -euo pipefail
[[ $# -eq 7 ]] || { echo "usage: $0 TRAIN SAMPLE EVALUATE CONVERT GRADUS TOKENIZERS WORK" >&2; exit 2; }
train=$1 sample=$2 evaluate=$3 convert=$4 gradus=$5 tokenizers=$6 work=$7
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"
for _ in $(seq 300); do echo "the quick brown fox jumps over the lazy dog"; done >text
"$train" --data text --steps 30 --lr 3e-3 --sample 0 --out run >log 2>&1 || wrong "training: $(tail -n 1 log)"
model=run/model.safetensors

# ---- gpt_sample
succeeds "$sample" $model --prompt "the " --count 300 --seed 3  # twice the context and more: the window slides
[[ $(wc -c <out) -eq 305 ]] || wrong "300 bytes after a prompt of 4 and a newline are $(wc -c <out)"
mv out one
succeeds "$sample" $model --prompt "the " --count 300 --seed 3 --threads 1
cmp -s out one || wrong "another number of threads wrote another text"
succeeds "$sample" $model --prompt "the " --count 300 --seed 3 --samples 3
[[ $(grep -c '^--- [23]$' out) -eq 2 ]] || wrong "three samples have no two lines between them"
head -c 305 out | cmp -s - one || wrong "the first of several samples is not that of the seed"
mv out three
succeeds "$sample" $model --prompt "the " --count 300 --seed 3 --samples 9  # eight together, and one
[[ $(grep -c '^--- [2-9]$' out) -eq 8 ]] || wrong "nine samples have no eight lines between them"
head -c "$(wc -c <three)" out | cmp -s - three || wrong "the first of nine samples are not those of three"
succeeds "$sample" $model --prompt "the " --count 300 --seed 3 --samples 3 --stop fox
[[ $(grep -c '^--- [23]$' out) -eq 2 ]] || wrong "samples that end early have no lines between them: $(cat out)"
grep -q fox out && wrong "what was written together goes on behind a stop text: $(cat out)"
mv three out
awk '/^--- 2$/ { second = 1 } second' out | tail -n +2 | head -n 1 | cut -c 1-30 >second
head -n 1 one | cut -c 1-30 | cmp -s - second && wrong "two samples are alike"
printf 'the lazy' | "$sample" $model --prompt - --count 40 --temperature 0 --stop fox --stop og >out 2>err ||
  wrong "a prompt from standard input: $(cat err)"
grep -q '^the lazy' out || wrong "the prompt from standard input is not there: $(cat out)"
grep -q 'fox\|og' out && wrong "what was written goes on behind a stop text: $(cat out)"
succeeds "$sample" $model --count 20 --top-k 3 --top-p 0.8 --repetition-penalty 1.2 --speed
has err '^1 tokens? read in .* s; 20 written in .*: [0-9.]+ tokens/s$'
head -c 3000 text | "$sample" $model --prompt - --count 5 >out 2>err ||
  wrong "a prompt that is longer than the context: $(cat err)"
[[ $(wc -c <out) -eq 3006 ]] || wrong "5 bytes after a prompt of 3000 and a newline are $(wc -c <out)"
status=0
{ "$sample" $model --count 1000000 2>err || echo $? >status; } | head -c 100 >out
[[ ! -e status && ! -s err ]] || wrong "a reader that has seen enough: status $(cat status 2>/dev/null), $(cat err)"
refuses 2 '--top-p must be above 0 and at most 1, not 1.5' "$sample" $model --top-p 1.5
refuses 2 '--repetition-penalty must be above 0, not 0' "$sample" $model --repetition-penalty 0
refuses 2 "--stop must be a text, not ''" "$sample" $model --stop ''
refuses 2 '--samples must be a whole number from 1 .*, not 0' "$sample" $model --samples 0
refuses 1 '--prompt -: standard input is empty' "$sample" $model --prompt -
refuses 1 'tokenizer.json: has 700 tokens, and the vocabulary of this program.s model is 256' \
  "$sample" $model --tokenizer "$tokenizers/tokenizer.json"

# ---- gpt_evaluate
succeeds "$evaluate" $model --data text
has out '^13200 tokens, 13199 of them predicted: loss [0-2]\.[0-9]{4} nats a token, perplexity [0-9.]+$'
refuses 1 'nowhere: no such file' "$evaluate" $model --data nowhere
: >empty
refuses 1 'empty: is empty' "$evaluate" $model --data empty
printf x >short
refuses 1 'short: is too short: a text must have two tokens at least' "$evaluate" $model --data short
refuses 2 '--data is required' "$evaluate" $model
printf 'abcd' >some.bin
refuses 1 'some.bin: is named as tokens are .*; name the text that they were made of' "$evaluate" $model --data some.bin
refuses 1 'not a safetensors file' "$evaluate" text --data text

# ---- gpt_convert
succeeds "$convert" $model --out exported
files=$'config.json\ngeneration_config.json\nmodel.safetensors\ntokenizer.json\ntokenizer_config.json'
[[ $(ls exported) == "$files" ]] ||
  wrong "a folder for Hugging Face holds $(ls exported)"
succeeds "$convert" exported --out back.safetensors
cmp -s back.safetensors $model || wrong "a model that was converted both ways is not what it was"
# The tokenizer goes along: here, tokens are bytes.
has exported/tokenizer_config.json '"tokenizer_class": "PreTrainedTokenizerFast"'
[[ $(grep -cE '^ {4}".*": [0-9]+[,}]' exported/tokenizer.json) -eq 256 ]] ||
  wrong "a model of bytes has a tokenizer of other tokens than 256"
refuses 2 '--tokenizer is for a model of gpt_train' \
  "$convert" exported --tokenizer exported/tokenizer.json --out other.safetensors
refuses 1 'tokenizer.json: has 700 tokens, and the vocabulary of this program.s model is 256' \
  "$convert" $model --tokenizer "$tokenizers/tokenizer.json" --out other
# Several files and an index; and a folder that only PyTorch reads.
mkdir sharded torch
cp exported/config.json sharded
cp exported/config.json torch
: >torch/pytorch_model.bin
cp exported/model.safetensors sharded/model-00001-of-00001.safetensors
grep -aoE '"transformer[^"]*"' exported/model.safetensors |
  awk '{ print (NR > 1 ? "," : "{\"weight_map\": {") $0 ": \"model-00001-of-00001.safetensors\"" } END { print "}}" }' \
    >sharded/model.safetensors.index.json
succeeds "$convert" sharded --out joined.safetensors
cmp -s joined.safetensors $model || wrong "a model that an index names is not what it was"
# Files of llama.cpp, and a folder of several files.
succeeds "$convert" $model --out model.gguf --type f32
succeeds "$convert" model.gguf --out back_of_gguf.safetensors
cmp -s back_of_gguf.safetensors $model || wrong "a model that was converted to GGUF and back is not what it was"
succeeds "$convert" model.gguf --out of_gguf --shards 1MB
ls of_gguf | grep -q '^model-00002-of-0000[0-9].safetensors$' || wrong "--shards 1MB wrote $(ls of_gguf)"
succeeds "$convert" of_gguf --out back_of_folder.safetensors
cmp -s back_of_folder.safetensors $model || wrong "a model of several files is not what it was"
succeeds "$train" --data text --init model.gguf --steps 1 --lr 1e-40 --weight-decay 0 --sample 0 --out of_init
cmp -s of_init/model.safetensors $model || wrong "a run does not start from the GGUF file that --init names"
succeeds "$convert" exported --out small.gguf --type q8_0
[[ $(stat -c %s small.gguf) -lt $(($(stat -c %s model.gguf) / 3)) ]] ||
  wrong "a file of 8 bits is $(stat -c %s small.gguf)"
refuses 1 'model.gguf: is there already' "$convert" exported --out model.gguf
head -c 1000000 model.gguf >cut.gguf
refuses 1 'cut.gguf: ends within the tensor .*: the file was cut short' "$convert" cut.gguf --out other
refuses 1 "^gpt_convert: torch: has pytorch_model.bin and no model.safetensors, which .*: python3 -c '.*save_pretrained" \
  "$convert" torch --out other.safetensors
refuses 1 'exported: is there already' "$convert" $model --out exported
refuses 1 'back.safetensors: is there already' "$convert" exported --out back.safetensors
refuses 2 'from is required' "$convert" --out other
refuses 2 "--adapter must be the name of a file, not ''\$" "$convert" $model --out other --adapter=
succeeds "$sample" --prompt= --count 3 -- $model
refuses 2 '--prompt needs a value before --count; ' "$sample" $model --prompt --count 3
refuses 2 '--out other is of the same kind as exported; name NAME.gguf, NAME.safetensors, or a folder' \
  "$convert" exported --out other
refuses 2 '--type is for NAME.gguf' "$convert" exported --out other.safetensors --type f16
refuses 2 '--shards is for a folder' "$convert" exported --out other.gguf --shards 1MB
refuses 2 '--type must be f32, f16, bf16 or q8_0, not q4' "$convert" exported --out other.gguf --type q4
sed -i 's/"n_head": 4/"n_head": 8/' exported/config.json
refuses 1 "config.json: 'n_head' is 8, and this program was compiled for 4" \
  "$convert" exported --out other.safetensors
refuses 1 'text: .*not a safetensors file' "$convert" text --out other
head -c 100000 $model >cut
refuses 1 'cut: holds' "$convert" cut --out other
compgen -G 'other*' >/dev/null && wrong "a conversion that failed left $(compgen -G 'other*')"

refuses 2 'gradus convert: from is required' "$gradus" convert --out other
refuses 2 'gradus convert: name first what to convert' "$gradus" convert
refuses 2 'gradus convert: nowhere: no such file or folder' "$gradus" convert nowhere --out other
refuses 2 'gradus convert: the model: cut.gguf: ends within the tensor' \
  "$gradus" convert cut.gguf --out other.safetensors

# ---- gradus sample
refuses 2 'gradus sample: name the folder of a run first' "$gradus" sample
refuses 2 'gradus sample: nowhere: no such file or folder' "$gradus" sample nowhere
refuses 2 'gradus sample: the model: text: .*not a safetensors file' "$gradus" sample text
refuses 2 "gradus sample: .: no run of gradus train: it has no file 'config'" "$gradus" sample .
mkdir bad
echo bogus = 1 >bad/config
refuses 2 "gradus sample: bad/config: there is no flag 'bogus'" "$gradus" sample bad
grep -v '^layers' run/config >bad/config
refuses 2 'gradus sample: bad/config: it does not say layers' "$gradus" sample bad
cp run/config bad/config
refuses 2 'gradus sample: bad: no model was saved yet' "$gradus" sample bad
touch bad/model.safetensors
refuses 2 'gradus sample: --device must be cpu or cuda, .*, not gpu' "$gradus" sample bad --device gpu
refuses 2 'gradus sample: --device needs a value' "$gradus" sample bad --device
rm bad/model.safetensors
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
