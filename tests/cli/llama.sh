#!/usr/bin/env bash
# llama.sh TRAIN SAMPLE EVALUATE CONVERT GPT_TRAIN GPT_CONVERT PROJECT GRADUS WORK: the programs compiled for a small
# Llama (kv-heads 2 of heads 4, hidden 48, a head of its own), and gradus train --architecture.
set -euo pipefail
[[ $# -eq 9 ]] || { sed -n 2p "$0" >&2; exit 2; }
train=$1 sample=$2 evaluate=$3 convert=$4 gpt_train=$5 gpt_convert=$6 project=$7 gradus=$8 work=$9
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
quick=("$train" --data text --sample 0 --eval-every 10 --threads 2)

# It trains, resumes to the same bits, repeats itself, and keeps to a budget.
steady=(--lr 1e-2 --schedule constant --warmup 0)
succeeds "${quick[@]}" "${steady[@]}" --steps 30 --out run
has out '^llama: 1 layer, width 128, 4 heads, context 32, fp32, 0.13M parameters$'
has run/log.jsonl '"model": "llama", .*"kv-heads": 2, "hidden": 48, "tied": 0, '
has run/config '^architecture = llama$'
succeeds "${quick[@]}" "${steady[@]}" --steps 20 --out halves
succeeds "$train" --config halves/config --resume halves --steps 30
cmp -s halves/model.safetensors run/model.safetensors || wrong "a Llama that was resumed has other weights"
succeeds "${quick[@]}" --plan
has out '^planned in all [0-9.]+ MiB$'
succeeds "${quick[@]}" "${steady[@]}" --steps 30 --checkpoint keep:matmul,swiglu --out kept
cmp -s kept/model.safetensors run/model.safetensors || wrong "a Llama whose blocks are computed again has other weights"

# It writes, and its loss is measured.
model=run/model.safetensors
succeeds "$sample" $model --prompt "the quick" --count 40 --temperature 0
has out '^the quick'
succeeds "$evaluate" $model --data text
has out 'loss [0-9.]+ nats a token'

# Hugging Face's folder, there and back. The loss is transformers', if there is a Python that has it.
succeeds "$convert" $model --out theirs
succeeds "$convert" theirs --out back.safetensors
cmp -s back.safetensors $model || wrong "a Llama that was converted both ways is not what it was"
succeeds "$convert" $model --out model.gguf --type f32
succeeds "$convert" model.gguf --out of_gguf.safetensors
cmp -s of_gguf.safetensors $model || wrong "a Llama that was converted to GGUF and back is not what it was"
succeeds "${quick[@]}" --init theirs --steps 1 --lr 1e-40 --weight-decay 0 --out same
cmp -s same/model.safetensors $model || wrong "a run does not start from the Llama that --init names"
for python in "${GRADUS_PEERS_PYTHON:-}" "$project/build/peers/bin/python" python3; do
  [[ -n $python ]] && "$python" -c 'import transformers, torch' 2>/dev/null || continue
  wanted=$("$python" "$project/tests/parity/make_model_fixtures.py" --loss theirs text 32 2>/dev/null)
  found=$("$evaluate" $model --data text | sed 's/.*loss \([0-9.]*\) nats.*/\1/')
  awk -v a="$wanted" -v b="$found" 'BEGIN { exit !(a - b < 2e-4 && b - a < 2e-4) }' ||
    wrong "the loss is $found, and transformers' of the same model and text $wanted"
  break
done

# Another architecture, and other sizes.
succeeds "$gpt_train" --data text --sample 0 --steps 1 --out gpt
refuses 1 'gpt/model.safetensors: its model is gradus gpt, and this program was compiled for gradus llama$' \
  "${quick[@]}" --init gpt
refuses 1 'run/model.safetensors: its model is gradus llama, and this program was compiled for gradus gpt$' \
  "$gpt_train" --data text --init run
refuses 2 "--config: run/config: --architecture must be gpt2, which this program was compiled for .*, not llama" \
  "$gpt_train" --config run/config
succeeds "$gpt_convert" gpt/model.safetensors --out gpt2
refuses 1 "gpt2/config.json: 'model_type' is \"gpt2\" where \"llama\" is needed" "${quick[@]}" --init gpt2
sed -i 's/"num_key_value_heads": 2/"num_key_value_heads": 4/' theirs/config.json
refuses 1 "theirs/config.json: 'num_key_value_heads' is 4, and this program was compiled for 2" \
  "${quick[@]}" --init theirs

# gradus train says what is wrong before it compiles.
refuses 2 'gradus train: --architecture must be gpt2, llama, mistral, .* or qwen3_moe, not bert' \
  "$gradus" train --architecture bert --data text
refuses 2 'gradus train: --model llama-15m is a Llama: leave out --architecture gpt2' \
  "$gradus" train --model llama-15m --architecture gpt2 --data text
refuses 2 'gradus train: --hidden is for --architecture llama' "$gradus" train --hidden 100 --data text
refuses 2 'gradus train: --heads 4 is not divisible by --kv-heads 3' \
  "$gradus" train --architecture llama --kv-heads 3 --data text
refuses 2 'gradus train: --tied must be 0 or 1, not' "$gradus" train --architecture llama --tied 2 --data text
refuses 2 'gradus train: --checkpoint: .* they apply rms_norm, ' \
  "$gradus" train --model llama-tiny --checkpoint keep:gelu --data text
refuses 2 'gradus train: --kv-heads 2: the model of --init, theirs, has 4; leave it out' \
  "$gradus" train --init theirs --kv-heads 2 --data text
refuses 2 'gradus train: --context 64: the model of --init, theirs, has 32' \
  "$gradus" train --init theirs --context 64 --data text
refuses 2 'gradus train: --hidden 50: the model of --init, run/model.safetensors, has 48; leave it out' \
  "$gradus" train --init run --hidden 50 --data text
[[ $failures -eq 0 ]] || { echo "$failures checks failed"; exit 1; }
