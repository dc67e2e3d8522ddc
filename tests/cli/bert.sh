#!/usr/bin/env bash
# bert.sh TRAIN GRADUS WORK: bert_train and gradus train-bert as a user meets them. The program is compiled for the
# model called bert-tiny.
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: $0 TRAIN GRADUS WORK" >&2; exit 2; }
train=$1 gradus=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"
accuracy() { sed -n 's/.*"accuracy": \([^,}]*\).*/\1/p' "$1/log.jsonl" | tail -n 1; }

cat >tokenizer.json <<'END'
{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
 "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                "lowercase": true},
 "pre_tokenizer": {"type": "BertPreTokenizer"},
 "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
 "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
           "max_input_chars_per_word": 100,
           "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "the": 5, "play": 6, "is": 7,
                     "good": 8, "bad": 9, "##ly": 10}}}
END
for i in $(seq 120); do
  if [[ $((i % 2)) -eq 0 ]]; then printf 'The play is good\tfine\n'; else printf 'the badly play is bad\tpoor\n'; fi
done >named.tsv
{ printf 'text\tlabel\n'; sed 's/fine$/1/; s/poor$/0/' named.tsv; } >numbered.tsv
sed 's/$/\tthe play/' numbered.tsv >pairs.tsv
sed -i '1d' pairs.tsv
quick=("$train" --tokenizer tokenizer.json --threads 2 --lr 1e-3)

# It learns; the folder that it writes has the model, the names of the labels and the tokenizer.
succeeds "${quick[@]}" --data named.tsv --steps 12 --eval-every 6 --out run
has out "^the first row: label 'poor', text 'the badly play is bad'$"
[[ $(accuracy run) == 1 || $(accuracy run) == 1.0* ]] || wrong "accuracy $(accuracy run)"
for file in config.json model.safetensors tokenizer.json tokenizer_config.json; do
  [[ -s run/model/$file ]] || wrong "run/model has no $file"
done
has run/model/config.json '"1": "poor"'
succeeds "${quick[@]}" --init run/model --data numbered.tsv --steps 1 --lr 1e-30 --out tuned
has out '^starting from run/model$'
cmp -s run/model/model.safetensors tuned/model/model.safetensors || wrong "--init starts from other weights"
succeeds "$train" --threads 2 --data pairs.tsv --init run/model --steps 1 --out pairs
if grep -q ignored out; then wrong "columns that are read are ignored"; fi
sed 's/$/\tx\ty/' pairs.tsv >wide.tsv
succeeds "$train" --threads 2 --data wide.tsv --validation-data pairs.tsv --init run/model --steps 1 --out wide
has out '^wide.tsv: ignored: columns 4 to 5$'
if grep -q 'pairs.tsv: ignored' out; then wrong "columns that are read are ignored"; fi

# Classes keep the numbers that the model has for their names, and numbers mean themselves.
cp -r run/model swapped
sed -i 's/"0": "fine"/"0": "poor"/; s/"1": "poor"/"1": "fine"/' swapped/config.json
succeeds "${quick[@]}" --init swapped --data named.tsv --steps 1 --lr 1e-30 --out unlike
[[ $(accuracy unlike) == 0 || $(accuracy unlike) == 0.0* ]] || wrong "names have other numbers than the model's"
has unlike/model/config.json '"1": "fine"'
head -n 1 named.tsv | sed 's/poor/other/' | cat named.tsv - >fourth.tsv
refuses 1 "the label 'other' is none of: poor, fine$" "${quick[@]}" --init swapped --data fourth.tsv
{ printf 'good\t1\n'; printf 'bad\t0\n'; } >judged.tsv
sed '1d; s/1$/0/' numbered.tsv >zeros.tsv
succeeds "${quick[@]}" --data zeros.tsv --validation-data judged.tsv --steps 1 --out zeros
refuses 1 "^bert_train: named.tsv: line 1: the label 'poor' is none of: 0, 1$" \
  "${quick[@]}" --data numbered.tsv --validation-data named.tsv

# A run in two parts has the weights of one.
succeeds "${quick[@]}" --data named.tsv --steps 6 --accumulate 2 --checkpoint blocks --out whole
cp -r whole part
(
  "${quick[@]}" --data named.tsv --steps 6 --accumulate 2 --out halves &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! grep -q '"step": 3' halves/log.jsonl 2>/dev/null; do sleep 0.02; done
  kill -INT $pid 2>/dev/null || true
  wait $pid
) >out 2>err || wrong "an interrupted run: $(cat err)"
if ! grep -q '"step": 6' halves/log.jsonl; then
  succeeds "${quick[@]}" --data named.tsv --steps 6 --accumulate 2 --resume halves
  has out '^resumed after step'
fi
cmp -s halves/model/model.safetensors whole/model/model.safetensors || wrong "a resumed run has other weights"
refuses 2 'has taken 6 steps already; give more than that to resume it' \
  "${quick[@]}" --data named.tsv --steps 6 --accumulate 2 --resume halves
succeeds "${quick[@]}" --data named.tsv --steps 9 --accumulate 2 --resume halves
has out '^resumed after step 6$'
refuses 1 "its data is 108 \+ 12 samples.*labels fine, poor, and this run's is" \
  "${quick[@]}" --data numbered.tsv --steps 12 --accumulate 2 --resume halves
refuses 1 '^bert_train: --resume: nowhere: no such folder$' "${quick[@]}" --data named.tsv --resume nowhere
# A damaged checkpoint is replaced by the one before.
succeeds "${quick[@]}" --data named.tsv --steps 4 --save-every 2 --eval-every 1 --out damaged
sed 's/"classifier.weight"/"classifier.weighs"/' damaged/checkpoint.safetensors >lacking
truncate -s 1000 damaged/checkpoint.safetensors
succeeds "${quick[@]}" --data named.tsv --steps 5 --eval-every 1 --resume damaged
has out '^resumed after step [24]$'
[[ $(grep -c accuracy damaged/log.jsonl) -eq 5 ]] || wrong "a resumed run has lost accuracies of its log"
has err 'checkpoint.safetensors: .*; resuming from checkpoint-previous.safetensors, step [24]$'
[[ -e damaged/checkpoint-damaged.safetensors ]] || wrong "the damaged checkpoint is gone"
# So is one that lacks a tensor, and says that it is whole.
sed -i 's/"crc32c":"[0-9a-f]*"/"crc32x":"00000000"/' lacking
cp lacking damaged/checkpoint.safetensors
succeeds "${quick[@]}" --data named.tsv --steps 6 --eval-every 1 --resume damaged
has err "checkpoint.safetensors: .*classifier.weigh.*; resuming from checkpoint-previous.safetensors, step [0-9]"

succeeds "$train" --dummy --steps 1 --threads 2 --out dummy
succeeds "$train" --plan --memory-budget 90MiB
has out '^planned: [0-9]+ bytes of parameters'

# What is wrong is one line.
refuses 1 '^bert_train: nowhere: no such file' "${quick[@]}" --data nowhere --tokenizer tokenizer.json
refuses 2 '--tokenizer is required' "$train" --data named.tsv
refuses 2 '--data is required' "$train"
refuses 2 '--epochs must be at most [0-9.]+ with these data' "${quick[@]}" --data named.tsv --epochs 1e18
sed '5s/fine\|poor/other/' named.tsv >three.tsv
refuses 1 "^bert_train: three.tsv: line [0-9]+: the label 'poor' is class 2; the classes are 0 to 1$" \
  "${quick[@]}" --data three.tsv
sed '7s/[01]$/2/' numbered.tsv >large.tsv
refuses 1 "^bert_train: large.tsv: line 7: the label '2' is class 2; the classes are 0 to 1$" \
  "${quick[@]}" --data large.tsv
sed '3s/\t.*//' named.tsv >missing.tsv
refuses 1 '^bert_train: missing.tsv: line 3' "${quick[@]}" --data missing.tsv
sed '3s/\t.*/\t/' named.tsv >empty.tsv
refuses 1 '^bert_train: empty.tsv: line 3: has no label$' "${quick[@]}" --data empty.tsv
refuses 1 "^bert_train: three.tsv: line 5: the label 'other' is none of: fine, poor$" \
  "${quick[@]}" --data named.tsv --validation-data three.tsv
head -n 9 named.tsv >short.tsv
refuses 1 'short.tsv: has 9 samples for training; at least 16 are needed' "${quick[@]}" --data short.tsv
mkdir other
sed 's/"hidden_size": 128/"hidden_size": 256/' run/model/config.json >other/config.json
refuses 1 "^bert_train: other/config.json: 'hidden_size' is 256, and this program was compiled for 128$" \
  "${quick[@]}" --data named.tsv --init other
sed 's/"bert"/"gpt2"/' run/model/config.json >other/config.json
refuses 1 "^bert_train: other/config.json: 'model_type' is \"gpt2\"; bert, roberta, .*albert are read$" \
  "${quick[@]}" --data named.tsv --init other
refuses 2 "--init: other/config.json: 'model_type' is \"gpt2\"; bert" "$gradus" train-bert --init other --data named.tsv
refuses 2 '--model must be bert-tiny, bert-base or bert-large, not gpt2' "$gradus" train-bert --model gpt2 --dummy
refuses 2 '--data: nowhere: no such file' "$gradus" train-bert --data nowhere --tokenizer tokenizer.json
refuses 2 '--width 100 is not divisible by --heads 3' "$gradus" train-bert --width 100 --heads 3 --dummy
refuses 2 '--length must be 3 to' "$gradus" train-bert --length 600 --dummy
refuses 2 '--what' "$gradus" train-bert --what
# The command says it before it compiles.
command_refuses() { refuses 2 "^gradus train-bert: $1" "$gradus" train-bert "${@:2}"; }
command_refuses '--precision must be fp32, .*, not none' --data three.tsv --tokenizer tokenizer.json --precision none
[[ ! -e 3 ]] || wrong "counting the classes writes a file"
command_refuses '--data is required'
command_refuses '--data and --dummy: give one of them' --data named.tsv --dummy
command_refuses '--data: other: is a directory; name a file' --data other --tokenizer tokenizer.json
command_refuses '--tokenizer is required' --data named.tsv
command_refuses '--lr must be a positive number, not x' --dummy --lr x
command_refuses '--warmup must be at least 0 and below 1, not 100' --dummy --warmup 100
command_refuses '--save-every must be a number of steps' --dummy --save-every 5x
command_refuses '--resume: nowhere: no such folder' --dummy --resume nowhere
command_refuses '--out: run: is not empty' --dummy --out run
command_refuses '--labels 3: the model of --init, run/model, has 2' --init run/model --data named.tsv --labels 3
cp run/model/config.json run/model/tokenizer.json other
command_refuses '--init: other: has no model.safetensors' --init other --data named.tsv
sed -i 's/"type_vocab_size": 2/"type_vocab_size": 2, "use_rope": true/' other/config.json
command_refuses "--init: other/config.json: 'use_rope', which is true, is not known" --init other \
  --data named.tsv
command_refuses '--task regression: the model of --init, run/model, has classes' --init run/model --data named.tsv \
  --task regression
command_refuses '--embed is for the model of --init' --embed named.tsv
command_refuses '--embed is for --task cosine or contrastive' --init run/model --embed named.tsv --task classes
command_refuses '--embed: nowhere: no such file' --init run/model --embed nowhere
command_refuses '--labels 1: --task classes has 2 or more' --dummy --labels 1
command_refuses '--length must be 3 to the model.s 510 positions' --dummy --family roberta --length 511
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
