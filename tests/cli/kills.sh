#!/usr/bin/env bash
# kills.sh TRAIN WORK [ROUNDS]: ends a run of TRAIN (the trainer of tiny) again and again at random moments, by SIGKILL, HUP, PIPE, TERM and INT in turn, and
# resumes it each time; every third round the disk is "full" for a while. It saves every 2 steps. Passes if every run resumes, if no
# round loses more than 2 steps while there was room, and if weights and losses are those of a run that was left alone. ROUNDS is 100
# unless given, which takes some minutes; no part of scripts/test.sh, whose group cli/resume does it twice.
set -uo pipefail
[[ $# -ge 2 && -x $1 ]] || { echo "usage: $0 TRAIN WORK [ROUNDS]" >&2; exit 2; }
train=$(realpath "$1") work=$2 rounds=${3:-100}
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 2
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
flags=(--data text --steps 2000 --dropout 0.1 --seed 3 --eval-every 200 --sample 0 --save-every 2 --save-retry 2)
losses() { sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$1/log.jsonl" 2>/dev/null; }
last_step() { losses run | tail -n 1 | cut -d' ' -f1; }
failures=0 most=0
wrong() { echo "round $round: $*"; failures=$((failures + 1)); }
signals=(KILL HUP PIPE TERM INT)
set -m
"$train" "${flags[@]}" --out run >out 2>err &
pid=$!
for round in $(seq "$rounds"); do
  signal=${signals[round % 5]} full=0
  sleep "0.$((RANDOM % 90 + 10))"
  if [[ $((round % 3)) -eq 0 ]] && mkdir run/checkpoint.safetensors.tmp 2>/dev/null; then
    full=1
    sleep "0.$((RANDOM % 50 + 10))"
    if [[ $((round % 2)) -eq 0 ]]; then rmdir run/checkpoint.safetensors.tmp 2>/dev/null; fi  # in time; otherwise after the end
  fi
  kill "-$signal" "$pid" 2>/dev/null
  wait "$pid"
  status=$?
  rmdir run/checkpoint.safetensors.tmp 2>/dev/null
  if [[ $signal == KILL ]]; then [[ $status -eq 137 ]] || wrong "status $status after SIGKILL"
  elif [[ $full -eq 0 && $status -ne 0 && -d run ]]; then  # before there is a folder a signal just ends it
    wrong "status $status after SIG$signal: $(tail -n 1 err)"
  fi
  before=$(last_step)
  if [[ ! -e run/checkpoint.safetensors ]]; then  # it was ended before its first checkpoint
    [[ ${before:-0} -le 2 || $full -eq 1 ]] || wrong "no checkpoint after step $before"
    rm -rf run
    "$train" "${flags[@]}" --out run >out 2>err &
    pid=$!
    continue
  fi
  "$train" "${flags[@]}" --resume run >out 2>err &
  pid=$!
  for _ in $(seq 3000); do
    grep -qs '^resumed after step' out && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.02
  done
  at=$(sed -n 's/^resumed after step \([0-9]*\).*/\1/p' out)
  if [[ -z $at ]]; then
    if grep -qs 'steps already' err; then break; fi
    wrong "not resumed after SIG$signal: $(tail -n 1 err)"
    continue
  fi
  lost=$((${before:-0} - at))
  if [[ $full -eq 0 ]]; then
    if [[ $lost -gt $most ]]; then most=$lost; fi
    [[ $lost -le 2 ]] || wrong "lost $lost steps, from $before to $at, after SIG$signal"
    if grep -qs warning err; then wrong "$(grep warning err)"; fi
  fi
done
kill -TERM "$pid" 2>/dev/null
wait "$pid"
set +m
# The rest of the run, and the same without all that. Some steps are enough to compare.
taken=$(last_step)
flags+=(--threads 2)
"$train" "${flags[@]}" --resume run >out 2>err || grep -q 'steps already' err || wrong "the end: $(tail -n 1 err)"
"$train" "${flags[@]}" --out straight >out 2>err || wrong "the straight run: $(tail -n 1 err)"
cmp -s <(losses run) <(losses straight) || wrong "the losses are not those of the straight run"
cmp -s run/model.safetensors straight/model.safetensors || wrong "the weights are not those of the straight run"
echo "$round rounds to step $taken, $failures failures, at most $most steps lost"
[[ $failures -eq 0 ]]
