#!/usr/bin/env bash
# adapters.sh TRAIN CONVERT TUNED_TRAIN TUNED_SAMPLE TUNED_CONVERT SAMPLE GRADUS PREFERRING_TRAIN WORK: fine-tuning on
# examples by adapters, as a user meets it. TRAIN, CONVERT and SAMPLE are compiled for the model called tiny, the tuned
# ones for the same with adapters of rank 4 and packed examples, PREFERRING_TRAIN with such adapters on a base in 8 bits
# and preferences. tests/parity/compare_adapters.py has transformers, PEFT and llama.cpp on the other side.
set -euo pipefail
[[ $# -eq 9 ]] || { echo "usage: $0: see above" >&2; exit 2; }
train=$1 convert=$2 tuned_train=$3 tuned_sample=$4 tuned_convert=$5 sample=$6 gradus=$7 preferring_train=$8 work=$9
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"
# The value of a key of a JSON file that is an id or a list of ids.
ids() { tr -d ' \n' <"$2" | grep -oE "\"$1\":(\[[0-9,]*\]|[0-9a-z]*)" || true; }

# A model in a folder of Hugging Face's, which says how it writes chats; and 200 chats.
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
succeeds "$train" --data text --steps 30 --lr 3e-3 --sample 0 --eval-every 30 --threads 2 --out base
succeeds "$convert" base/model.safetensors --out theirs
cat >theirs/tokenizer_config.json <<'END'
{"chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"}
END
for i in $(seq 200); do
  echo '{"messages": [{"role": "user", "content": "say '"$((i % 7))"'"}, {"role": "assistant", "content": "yes yes"}]}'
done >chats.jsonl
tune=("$tuned_train" --data chats.jsonl --init theirs --eval-every 10 --threads 2 --lr 1e-2 --schedule constant
  --warmup 0)
succeeds "${tune[@]}" --steps 40 --sample 20 --sample-every 20 --sample-prompt 'say 3' --sample-prompt 'say 4' \
  --out tuned
has out 'adapters of rank 4, which are trained'
has out '180 examples of [0-9]* tokens, and 20'
has out '^perplexity '
[[ $(grep -c '^> say [34]$' out) -eq 4 ]] || wrong "samples after 20 and 40 steps do not answer both prompts"
tune+=(--sample 0)
grep -q adapter tuned/model.safetensors || wrong "a run's model has no adapters"
! grep -aq '"blocks.0.mlp.up.weight"' tuned/model.safetensors || wrong "a run's model has more than its adapters"

# It is resumed to the same bits, with the model that it belongs to.
succeeds "${tune[@]}" --steps 20 --out halves
succeeds "$tuned_train" --config halves/config --resume halves --steps 40
cmp -s halves/model.safetensors tuned/model.safetensors || wrong "a run of adapters that was resumed has other ones"

# The same text is written by the adapters, by those in PEFT's format, and by the model that they are merged into.
prompt=$'<|im_start|>user\nsay 3<|im_end|>\n<|im_start|>assistant\n'
write=(--prompt "$prompt" --temperature 0 --count 20)
succeeds "$tuned_sample" tuned/model.safetensors --tokenizer theirs/tokenizer.json "${write[@]}"
cp out wanted
has wanted 'yes yes'
succeeds "$tuned_convert" tuned/model.safetensors --out peft
has peft/adapter_config.json '"peft_type": "LORA"'
succeeds "$tuned_sample" theirs --adapter peft "${write[@]}"
cmp -s out wanted || wrong "adapters in PEFT's format write another text"
succeeds "$tuned_convert" tuned/model.safetensors --merge --out merged.safetensors
succeeds "$sample" merged.safetensors --tokenizer theirs/tokenizer.json "${write[@]}"
cmp -s out wanted || wrong "the merged model writes another text"
succeeds "$tuned_convert" theirs --adapter peft --out merged
has merged/tokenizer_config.json '"chat_template": '
succeeds "$convert" merged --out again.safetensors
succeeds "$sample" again.safetensors --tokenizer theirs/tokenizer.json "${write[@]}"
cmp -s out wanted || wrong "the model merged with PEFT's adapters writes another text"

# Preferences, on a base in 8 bits: resumed to the same bits, and used with the model as it was.
for i in $(seq 60); do
  echo '{"prompt": "say '"$((i % 7))"'", "chosen": " yes", "rejected": " fox"}'
done >pairs.jsonl
prefer=("$preferring_train" --data pairs.jsonl --init theirs --base int8 --dpo 0.5 --accumulate 4 --lr 1e-2
  --schedule constant --warmup 0 --eval-every 10 --threads 2)
succeeds "${prefer[@]}" --steps 20 --sample 20 --sample-prompt 'say 3' --out preferred
has out 'which are trained, on a base in 8 bits'
has out '54 preferences of [0-9]* tokens, and 6'
has out '^the better answer is preferred in 100 %'
succeeds "${prefer[@]}" --steps 10 --sample 0 --out half
succeeds "$preferring_train" --config half/config --resume half --steps 20
cmp -s half/model.safetensors preferred/model.safetensors || wrong "preferences that were resumed have other adapters"
for file in model checkpoint; do
  (($(stat -c %s preferred/$file.safetensors) < $(stat -c %s tuned/$file.safetensors) + 1000)) ||
    wrong "$file.safetensors of a run on a base in 8 bits has more than its adapters"
done
succeeds "$tuned_sample" preferred/model.safetensors --tokenizer theirs/tokenizer.json --prompt 'say 3' --count 4
refuses 2 '--dpo: chats.jsonl: has no preferences' "${prefer[@]/pairs/chats}" --out none
refuses 2 'compiled for preferences' "$preferring_train" --data pairs.jsonl --init theirs --base int8 --out none
refuses 2 'pairs.jsonl: has preferences .chosen, rejected.; train on them by --dpo' "${tune[@]/chats/pairs}" --out none
refuses 2 '--dpo: name preferences with --data' "$gradus" train --init theirs --lora 4 --dpo 0.1

# A conversation, of two messages.
printf 'say 3\nsay 4\n' | "$tuned_sample" theirs --adapter tuned/model.safetensors --chat --temperature 0 >talk
[[ $(cat talk) == $'yes yes\nyes yes' ]] || wrong "a conversation is '$(cat talk)'"

printf 'say 5\n' | "$tuned_sample" tuned/model.safetensors --chat --temperature 0 >talk
[[ $(cat talk) == 'yes yes' ]] || wrong "a conversation with a run is '$(cat talk)'"

# What the model's folder says of its texts goes with it, as transformers 5 writes it: a template in its own file, several
# ends, defaults of generation.
cp -r theirs instruct
grep -o '{% for.*endif %}' theirs/tokenizer_config.json >instruct/chat_template.jinja
echo '{"eos_token": {"content": "!", "lstrip": false}, "pad_token": "?", "padding_side": "left", "own": [1, 2]}' \
  >instruct/tokenizer_config.json
echo '{"do_sample": true, "temperature": 0.6, "top_k": 20, "eos_token_id": [33, 36]}' >instruct/generation_config.json
sed -i 's/"eos_token_id": null/"eos_token_id": [33, 35]/; s/"bos_token_id": null/"bos_token_id": 64/' \
  instruct/config.json
instruct=("${tune[@]/theirs/instruct}")
succeeds "${instruct[@]}" --steps 20 --out told
succeeds "$tuned_train" --config told/config --resume told --steps 40 --sample 20
[[ $(tail -n 3 out) != *'<|im_end|>'* ]] ||
  wrong "the sample of a chat run does not end with the answer: $(tail -n 3 out)"
printf 'say 3\n' | "$tuned_sample" told/model.safetensors --chat --temperature 0 >talk
[[ $(cat talk) == 'yes yes' ]] || wrong "a conversation with a run of an instruct model is '$(cat talk)'"
succeeds "$tuned_convert" told/model.safetensors --merge --out told_folder
succeeds "$tuned_convert" told/model.safetensors --out told_peft
succeeds "$tuned_convert" instruct --adapter told_peft --out told_again
for folder in told_folder told_again; do
  for file in tokenizer_config.json chat_template.jinja generation_config.json; do
    cmp "instruct/$file" "$folder/$file" || wrong "$folder has another $file than the model"
  done
  for key in bos_token_id eos_token_id pad_token_id; do
    [[ $(ids "$key" $folder/config.json) == "$(ids "$key" instruct/config.json)" ]] ||
      wrong "$folder/config.json has $(ids "$key" $folder/config.json)"
  done
done
for file in tokenizer_config.json chat_template.jinja; do
  cmp "instruct/$file" "told_peft/$file" || wrong "a folder of PEFT's has another $file than the model"
done
succeeds "$tuned_convert" told/model.safetensors --merge --out told.gguf
succeeds "$convert" told.gguf --out told_gguf
[[ $(ids eos_token_id told_gguf/generation_config.json) == '"eos_token_id":[33,35,36]' ]] ||
  wrong "GGUF's ends are $(ids eos_token_id told_gguf/generation_config.json)"
has told_gguf/generation_config.json '"temperature": 0.6'
has told_gguf/tokenizer_config.json '"chat_template": "{% for message in messages'
# A completion ends with the end that is named, and text ends there.
printf '{"prompt": "say %s", "completion": " yes"}\n' $(seq 40) >ask.jsonl
succeeds "${instruct[@]/chats/ask}" --steps 40 --out asked
succeeds "$tuned_sample" asked/model.safetensors --prompt 'say 7' --temperature 0 --count 20
[[ $(cat out) == 'say 7 yes' ]] || wrong "a completion does not end where the model's texts end: '$(cat out)'"

# What cannot be.
succeeds "$train" --data text --steps 1 --seed 9 --sample 0 --threads 2 --out another
refuses 1 'model.safetensors: its adapters belong to another model than this one; they were trained on .*theirs$' \
  "$tuned_sample" another/model.safetensors --adapter tuned/model.safetensors --prompt x
sed 's/"r": 4/"r": 5/' peft/adapter_config.json >changed && mv changed peft/adapter_config.json
refuses 1 "'r' is 5, and this program was compiled for 4" "$tuned_sample" theirs --adapter peft --prompt x
refuses 2 "no linear layer of this model is named 'q_proj'; there are c_attn, c_fc, c_proj" \
  "${tune[@]}" --lora-on c_attn,q_proj --steps 1 --out none
echo '{"messages": [{"role": "user", "content": "x"}' >broken.jsonl
refuses 1 'broken.jsonl, line 1: is not JSON' "$tuned_train" --data broken.jsonl --init theirs --out none
long=$(printf 'long %.0s' $(seq 300))
printf '{"prompt": "%s", "completion": "%s"}\n' a "$long" a b "$long" b >long.jsonl
short=("$tuned_train" --data long.jsonl long.jsonl --init theirs --steps 1 --sample 0 --threads 2)
succeeds "${short[@]}" --out cut
has out '2 cut at the context; 2 with nothing to learn left out'
succeeds "${short[@]}" --long-examples skip --out skipped
has out '4 longer than the context left out'
# Keys that are ignored are said, by the trainer and by the command's check.
sed 's/}$/, "system": "Be brief."}/' long.jsonl >system.jsonl
succeeds "${short[@]//long.jsonl/system.jsonl}" --out system
has out '^system.jsonl: ignored in 3 examples: "system"$'
refuses 2 'broken.jsonl, line 1: is not JSON' \
  "$gradus" train --init theirs --lora 4 --data system.jsonl --validation-data broken.jsonl
has out '^system.jsonl: ignored in 3 examples: "system"$'
refuses 2 '--order is for texts and shards' "${tune[@]}" --order shuffled --out none
refuses 2 '--validation-data: text: is no file of examples' "${tune[@]}" --validation-data text --out none
refuses 2 '--sample-prompt and --sample 0' "${tune[@]}" --sample-prompt x --out none
refuses 2 'compiled for examples' "$tuned_train" --data text --init theirs --out none
refuses 2 'compiled for texts and shards' "$train" --data chats.jsonl --out none
refuses 2 'compiled without adapters' "$train" --data text --init theirs --lora 4 --out none
mv theirs moved && cp -r another theirs && rm -f theirs/config theirs/checkpoint.safetensors
refuses 1 'its adapters belong to what .*theirs.* was; it holds another model now' \
  "$tuned_train" --config halves/config --resume halves --steps 50
rm -r theirs && mv moved theirs
# Before anything is compiled:
refuses 2 '--lora trains adapters of a model: name it with --init' "$gradus" train --lora 4 --data text
refuses 2 '--base is for --lora RANK' "$gradus" train --init theirs --base int8 --data text
refuses 2 '--base must be stored, which this program was compiled for' "${tune[@]}" --base int8 --out none
refuses 2 '--batch: with --dpo a batch is one pair' \
  "$gradus" train --init theirs --lora 4 --dpo 0.1 --batch 2 --data pairs.jsonl
refuses 2 '--dpo is for --lora RANK' "$gradus" train --init theirs --dpo 0.1 --data pairs.jsonl
refuses 2 '--lora-alpha is for --lora RANK' "$gradus" train --init theirs --lora-alpha 4 --data text
refuses 2 'broken.jsonl, line 1: is not JSON' "$gradus" train --init theirs --lora 4 --data broken.jsonl
refuses 2 '--lora 900: is a rank below the width' "$gradus" train --init theirs --lora 900 --data chats.jsonl
refuses 2 'holds adapters alone, of the model .*theirs; merge them first' "$gradus" train --init tuned --data text
refuses 2 'parquet' "$gradus" train --init theirs --data chats.parquet
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
