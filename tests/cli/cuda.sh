#!/usr/bin/env bash
# cuda.sh WORK SAMPLE SAMPLE_ON_CPU TRAIN...: the trainer for a GPU, of 1 layer, as a user meets it, and gpt_sample;
# TRAIN is the program, behind what starts it and SAMPLE. Status 77 where there is no GPU.
set -euo pipefail
[[ $# -ge 4 ]] || { echo "usage: $0 WORK SAMPLE SAMPLE_ON_CPU TRAIN..." >&2; exit 2; }
work=$1 sample_on_cpu=$3
sample=("${@:4:$#-4}" "$2")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
train=("${@:2}")
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"

for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
losses() { grep -oE '"(step|loss|validation_loss)": [^,}]*' "$1/log.jsonl"; }

# A plan needs no GPU, a run does.
succeeds "${@: -1}" --plan
has out 'planned in all'
refuses 2 '--anomaly .* for the CPU' "${train[@]}" --data text --steps 1 --anomaly
flags=(--data text --dropout 0.1 --accumulate 2 --lr 3e-2 --schedule constant --eval-every 3)
status=0
"${train[@]}" "${flags[@]}" --steps 6 --sample 5 --profile --memory-report step.html --out straight \
  >out 2>err </dev/null || status=$?
if grep -q '^gpt_train: cuda_stream: ' err; then
  [[ $status -eq 1 && ! -e straight ]] || wrong "no GPU: status $status"
  cat err
  [[ $failures -eq 0 ]] && exit 77
  exit 1
fi
[[ $status -eq 0 ]] || wrong "status $status: $(tail -n 3 err)"
# It learns, and says what it ran on.
has out 'multiprocessors'
has out "the GPU's peak"
has out '^a sample:'
has out '^causal_attention +backward '
awk -F'"loss": ' '
  /"loss"/ { split($2, n, /[,}]/); if (!first) first = n[1]; last = n[1] }
  END { exit !(last < first - 0.5) }' straight/log.jsonl ||
  wrong "it did not learn: $(losses straight)"
# gpt_sample writes there what it writes on the CPU: behind a prompt, past the end of the context, several texts at a
# time.
for text in "--count 40 --temperature 0 --prompt quick" "--count 20 --samples 3 --seed 5"; do
  read -ra text <<<"$text"
  succeeds "$sample_on_cpu" straight/model.safetensors "${text[@]}"
  mv out expected
  succeeds "${sample[@]}" straight/model.safetensors "${text[@]}"
  cmp -s out expected ||
    wrong "on the GPU gpt_sample ${text[*]} writes another text than on the CPU: $(head -c 200 out)"
done
refuses 1 'missing.safetensors' "${sample[@]}" missing.safetensors
# As graphs, its steps have the same bits.
succeeds "${train[@]}" "${flags[@]}" --steps 6 --sample 0 --graph --out graph
[[ $(losses straight) == "$(losses graph)" ]] || wrong "the losses of steps as graphs are others"
cmp -s straight/model.safetensors graph/model.safetensors || wrong "the weights of steps as graphs are others"
# So have steps whose results are in the host's memory meanwhile. What the model writes so far is a copy's on the CPU.
succeeds "${train[@]}" "${flags[@]}" --steps 6 --sample 5 --sample-every 4 --checkpoint offload:linear --out host
has out '^a sample after step 4:$'
[[ $(losses straight) == "$(losses host)" ]] || wrong "the losses with results in host memory are others"
cmp -s straight/model.safetensors host/model.safetensors || wrong "the weights with results in host memory are others"
refuses 2 '--offload .* is for the CPU' "${train[@]}" "${flags[@]}" --offload .
# With tuned products too: the file of one run is what the next one goes by.
succeeds "${train[@]}" "${flags[@]}" --steps 3 --sample 0 --graph --tune-products products --out tuned
cp products kept
succeeds "${train[@]}" "${flags[@]}" --steps 3 --sample 0 --tune-products products --out tuned2
cmp -s products kept || wrong "a second run has timed its products again"
cmp -s tuned/model.safetensors tuned2/model.safetensors || wrong "runs of one file of tuned products differ"
# On another GPU too, where there is one, and any number but one of a GPU is refused.
refuses 2 '--device must be cpu or cuda, or a GPU by number, such as cuda:1, not cuda:x' \
  "${train[@]}" "${flags[@]}" --device cuda:x
refuses 1 'there is no GPU 64 here' "${train[@]}" "${flags[@]}" --steps 3 --device cuda:64
if "${train[@]}" "${flags[@]}" --steps 6 --sample 0 --device cuda:1 --out second >out 2>err </dev/null; then
  [[ $(losses straight) == "$(losses second)" ]] || wrong "the losses on the second GPU are others"
  cmp -s straight/model.safetensors second/model.safetensors ||
    wrong "the weights of a run on the second GPU are others"
  succeeds "${sample[@]}" second/model.safetensors --count 5 --device cuda:1
else
  has err 'there is no GPU 1 here: the one GPU has number 0'
fi
# Two GPUs have the bits of one with two leaves, whatever they share.
if "${train[@]}" "${flags[@]}" --steps 3 --sample 0 --ranks 2 --out ranks >out 2>err </dev/null; then
  succeeds "${train[@]}" "${flags[@]}" --steps 3 --sample 0 --leaves 2 --out leaves
  succeeds "${train[@]}" "${flags[@]}" --steps 3 --sample 0 --ranks 2 --shard parameters --out shares
  for run in ranks shares; do
    [[ $(losses leaves) == "$(losses $run)" ]] || wrong "$run: the losses on two GPUs are others"
    cmp -s leaves/model.safetensors $run/model.safetensors || wrong "$run: the weights on two GPUs are others"
  done
else
  has err 'NCCL, which was not found|there is no GPU 1 here'
fi
# An interrupted run goes on with the same bits.
succeeds "${train[@]}" "${flags[@]}" --steps 4 --sample 0 --out cut
succeeds "${train[@]}" "${flags[@]}" --steps 6 --sample 0 --resume cut
has out '^resumed after step 4'
[[ $(losses straight) == "$(losses cut)" ]] || wrong "the losses of the resumed run are others"
cmp -s straight/model.safetensors cut/model.safetensors || wrong "the weights of the resumed run are others"
cmp -s straight/best.safetensors cut/best.safetensors || wrong "another model was the best"
# It starts from another run's weights: a step of next to nothing leaves them as they were.
succeeds "${train[@]}" --data text --steps 1 --sample 0 --lr 1e-40 --weight-decay 0 --init straight --out still
has out '^starting from straight/model.safetensors$'
cmp -s still/model.safetensors straight/model.safetensors ||
  wrong "a run does not start from the weights that --init names"

echo "$failures checks failed"
[[ $failures -eq 0 ]]
