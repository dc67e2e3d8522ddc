#!/usr/bin/env bash
# windows.sh TRAIN SAMPLE WORK: the trainer and gpt_sample where only they can be built, in the folder WORK, which is
# emptied.
set -euo pipefail
[[ $# -eq 3 ]] || { echo "usage: $0 TRAIN SAMPLE WORK" >&2; exit 2; }
train=$1 sample=$2 work=$3
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
cd "$work"
source "$here/support.sh"

seq 4000 >text
flags=(--data text --steps 6 --accumulate 2 --dropout 0.1 --seed 7 --eval-every 2 --sample 0 --schedule constant
  --warmup 0 --leaves 2)
succeeds "$train" "${flags[@]}" --out straight
has out '^step +6  loss [0-9]'
has straight/log.jsonl '"step": 6'
[[ -s straight/loss.svg ]] || wrong "there is no picture of the losses"
# A run that is resumed, on other numbers of threads and workers, and one of ranks have the same bits.
succeeds "$train" "${flags[@]}" --steps 3 --out cut
succeeds "$train" "${flags[@]}" --resume cut --threads 1 --workers 4
has out '^resumed after step 3'
succeeds "$train" "${flags[@]}" --out ranks --ranks 2
for other in cut ranks; do
  cmp -s {straight,$other}/model.safetensors || wrong "$other: other weights than those of the straight run"
done
refuses 1 'straight: .*' "$train" "${flags[@]}" --out straight
refuses 1 'nowhere.txt: no such file' "$train" --data nowhere.txt --out none

succeeds "$sample" straight/model.safetensors --prompt 12 --count 40 --seed 3
[[ $(wc -c <out) -ge 40 ]] || wrong "fewer than 40 bytes were written"
[[ $failures -eq 0 ]]
