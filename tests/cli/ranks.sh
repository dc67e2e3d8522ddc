#!/usr/bin/env bash
# ranks.sh TRAIN WORK: trains with TRAIN on ranks that are threads. The weights, the optimizer's states and the losses
# are those of one rank, whatever the ranks share, and a run goes on with another number of them.
set -uo pipefail
[[ $# -eq 2 && -x $1 ]] || { echo "usage: $0 TRAIN WORK" >&2; exit 2; }
train=$(realpath "$1") work=$2
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 2
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
flags=(--data text --dropout 0.1 --seed 3 --schedule constant --warmup 0 --eval-every 2 --sample 0 --threads 1
  --leaves 4 --accumulate 4)

# The tensors of a checkpoint, which follow a header with times in it.
tensors() {
  local length
  length=$(od -An -N8 -tu8 -- "$1/checkpoint.safetensors" | tr -d ' ')
  tail -c +$((9 + length)) -- "$1/checkpoint.safetensors"
}
losses() { grep -oE '"(step|loss|validation)": [^,}]*' "$1/log.jsonl"; }
same() {
  cmp -s "$1/model.safetensors" "$2/model.safetensors" || wrong "$2: its weights are not those of $1"
  cmp -s <(tensors "$1") <(tensors "$2") || wrong "$2: its optimizer's states are not those of $1"
  [[ -n $(losses "$1") && $(losses "$1") == "$(losses "$2")" ]] || wrong "$2: its losses are not those of $1"
}

succeeds "$train" "${flags[@]}" --steps 4 --out one
for kind in nothing states gradients parameters; do
  succeeds "$train" "${flags[@]}" --steps 4 --ranks 4 --shard "$kind" --out "$kind"
  same one "$kind"
done
# Another number of ranks, and something else that they share, after two steps.
succeeds "$train" "${flags[@]}" --steps 2 --ranks 4 --shard parameters --out resumed
succeeds "$train" "${flags[@]}" --steps 4 --ranks 2 --shard states --resume resumed
same one resumed
succeeds "$train" "${flags[@]}" --steps 2 --out resumed2
succeeds "$train" "${flags[@]}" --steps 4 --ranks 4 --shard gradients --resume resumed2
same one resumed2
# The weights of another run, which each rank has its part of.
succeeds "$train" "${flags[@]}" --steps 1 --init one --out from_one
succeeds "$train" "${flags[@]}" --steps 1 --init one --ranks 4 --shard parameters --out from_one4
same from_one from_one4

succeeds "$train" "${flags[@]}" --plan --ranks 2 --shard gradients
has out "rank 1 of 2: parameters and optimizer state [0-9.]+ MiB"
refuses 2 "ranks must be a power of two, not 3" "$train" --data text --ranks 3
refuses 2 "leaves must be at least the number of ranks .4., not 2" "$train" --data text --ranks 4 --leaves 2
refuses 2 "accumulate must be a multiple of --leaves .4.: .* not 6" "$train" --data text --ranks 4 --accumulate 6
refuses 1 "its leaves is 4, and this run's is 2" "$train" "${flags[@]}" --leaves 2 --steps 9 --resume resumed
# A rank that cannot go on ends the others, in one line: the text is replaced while they train.
"$train" "${flags[@]}" --steps 1000000 --ranks 4 --save-every 1 --out ended >out 2>err &
pid=$!
for _ in $(seq 600); do
  if [[ -s ended/checkpoint.safetensors ]] || ! kill -0 "$pid" 2>/dev/null; then break; fi
  sleep 0.1
done
: >text
wait "$pid" && wrong "a run whose text was emptied did not end"
has err "text"
[[ -s ended/checkpoint.safetensors ]] || wrong "the run that ended has no checkpoint"
exit $((failures > 0))
