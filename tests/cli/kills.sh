#!/usr/bin/env bash
# kills.sh TRAIN WORK [ROUNDS]: ends a run of TRAIN (the trainer of tiny) again and again at random moments, and resumes
# it each time. In turn: SIGKILL; SIGTERM and soon after SIGKILL, while it validates; USR1; its text is rewritten, cut
# short or emptied in place; its folder is removed, and then it is killed; HUP, TERM, XCPU, PIPE, INT, USR2. Every third
# signal finds the disk "full" for a while. It saves every 2 steps. Passes if every run resumes, if no round loses more
# than 2 steps while there was room, and if weights and log are those of a run that was left alone. ROUNDS is 40 unless
# given, which takes some minutes; cli/kills of scripts/test.sh has 6.
set -uo pipefail
[[ $# -ge 2 && -x $1 ]] || { echo "usage: $0 TRAIN WORK [ROUNDS]" >&2; exit 2; }
train=$(realpath "$1") work=$2 rounds=${3:-40}
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 2
for _ in $(seq 200); do echo "the quick brown fox jumps over the lazy dog"; done >text
cp text original
tr a-z b-za <text >other
# A rate that does not depend on how long the run is.
flags=(--data text --dropout 0.1 --seed 3 --schedule constant --warmup 0 --eval-every 20 --sample 0
  --save-every 2 --save-retry 2)
losses() { sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\),.*/\1 \2/p' "$1/log.jsonl" 2>/dev/null; }
last_step() { losses run | tail -n 1 | cut -d' ' -f1; }
failures=0 most=0
wrong() { echo "round $round: $*"; failures=$((failures + 1)); }
# until COMMAND...: it succeeds, or the run has ended, or two minutes are over
until_it() {
  for _ in $(seq 1200); do
    if "$@"; then return 0; fi
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}
has_taken() { [[ $(last_step) -ge $1 ]]; }
is_there_again() { [[ -s run/config && -s run/checkpoint.safetensors ]] && has_taken 1; }
pause() { sleep "0.$((RANDOM % $1 + 100))"; }

begin() {
  rm -f out err  # the run opens them in its own time; until then nobody may read the last run's
  "$train" "${flags[@]}" --steps 1000000 "$@" >out 2>err &
  pid=$!
}
change_text() {
  case $((RANDOM % 4)) in
    0) cp other text ;;  # of the same size
    1) : >text ;;
    2) truncate -s 3000 text ;;
    *) echo "one more line" >>text ;;
  esac
}
events=(KILL TERM+KILL USR1 text folder HUP TERM XCPU PIPE INT USR2)
set -m
round=0
begin --out run
at=0
for round in $(seq "$rounds"); do
  event=${events[(round - 1) % ${#events[@]}]} full=0 expected=0
  until_it has_taken $((at + 3)) || wrong "takes no steps before $event: $(tail -n 1 err)"
  pause 500
  if [[ $((round % 3)) -eq 0 && $event != text && $event != folder ]] &&
    mkdir run/checkpoint.safetensors.tmp 2>/dev/null; then
    full=1
    pause 400
    # In time; otherwise after the end.
    if [[ $((round % 2)) -eq 0 ]]; then rmdir run/checkpoint.safetensors.tmp 2>/dev/null; fi
  fi
  case $event in
    KILL) kill -KILL "$pid" 2>/dev/null; expected=137 ;;
    TERM+KILL)
      kill -TERM "$pid" 2>/dev/null
      pause 300
      kill -KILL "$pid" 2>/dev/null
      expected='137|0' ;;
    text) change_text; expected=1 ;;
    folder)
      if [[ $((RANDOM % 2)) -eq 0 ]]; then mv run gone; rm -rf gone; else rm -rf run 2>/dev/null; fi
      until_it is_there_again || wrong "the folder is not made again: $(tail -n 1 err)"
      # A file that is written while rm runs may keep the folder itself.
      said='warning: run(: was removed; it is made again|/config: was removed; it is written again)'
      [[ $(grep -cE "$said" err) -eq 1 ]] || wrong "the removed folder: $(cat err)"
      kill -KILL "$pid" 2>/dev/null
      expected=137 ;;
    *) kill "-$event" "$pid" 2>/dev/null ;;
  esac
  wait "$pid" 2>/dev/null
  status=$?
  rmdir run/checkpoint.safetensors.tmp 2>/dev/null
  [[ $full -eq 1 || $status =~ ^($expected)$ ]] || wrong "status $status after $event: $(tail -n 1 err)"
  if [[ $event == text ]]; then
    said='gpt_train: text: has changed since it was opened; it must not change while it is in use'
    [[ $(tail -n 1 err) == "$said" ]] || wrong "$(cat err)"
    cp original text
  fi
  before=$(last_step)
  begin --resume run
  until_it grep -qs '^resumed after step' out
  at=$(sed -n 's/^resumed after step \([0-9]*\).*/\1/p' out)
  if [[ -z $at ]]; then
    wrong "not resumed after $event: $(tail -n 1 err)"
    break
  fi
  lost=$((${before:-0} - at))
  [[ $lost -ge 0 ]] || wrong "after $event the log ends at step $before, and the checkpoint is of step $at"
  if [[ $full -eq 0 ]]; then
    if [[ $lost -gt $most ]]; then most=$lost; fi
    [[ $lost -le 2 ]] || wrong "lost $lost steps, from $before to $at, after $event"
    if grep -qs warning err; then wrong "$(grep warning err)"; fi
  fi
done
kill -TERM "$pid" 2>/dev/null
wait "$pid"
set +m
# The rest of the run, and the same without all that.
taken=$(last_step)
flags+=(--steps "$((taken + 2))" --threads 2)
"$train" "${flags[@]}" --resume run >out 2>err || wrong "the end: $(tail -n 1 err)"
"$train" "${flags[@]}" --out straight >out 2>err || wrong "the straight run: $(tail -n 1 err)"
[[ $(losses straight | wc -l) -eq $((taken + 2)) ]] ||
  wrong "the straight run logged $(losses straight | wc -l) steps, not $((taken + 2))"
cmp <(losses run) <(losses straight) || wrong "the log is not that of the straight run"
cmp run/model.safetensors straight/model.safetensors || wrong "the weights are not those of the straight run"
echo "$round rounds to step $taken, $failures failures, at most $most steps lost"
[[ $failures -eq 0 ]]
