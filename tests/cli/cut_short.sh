#!/usr/bin/env bash
# cut_short.sh SOURCE TOKENS GRADUS WORK: commands that are killed at work. The same command then works; while one is at
# work, another one says so or waits.
set -euo pipefail
[[ $# -eq 4 ]] || { echo "usage: $0 SOURCE TOKENS GRADUS WORK" >&2; exit 2; }
source=$1 tokens=$2 gradus=$3 work=$4
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"/{bin,checkout/include/gradus,checkout/examples/command,checkout/build/command/examples}
cd "$work"
source "$here/support.sh"

# until_is SECONDS COMMAND...: until it succeeds
until_is() {
  local tenths=$(($1 * 10))
  shift
  until "$@"; do
    tenths=$((tenths - 1))
    [[ $tenths -gt 0 ]] || return 1
    sleep 0.1
  done
}
# begun PID FILE: whether the file is there, or the process has ended
begun() { [[ -e $2 ]] || ! kill -0 "$1" 2>/dev/null; }
gone() { ! kill -0 "$1" 2>/dev/null || [[ $(ps -o stat= -p "$1") == Z* ]]; }

# ---- a folder that is being written
for _ in $(seq 20000); do echo "the quick brown fox jumps over the lazy dog $RANDOM"; done >text
learn=("$tokens" --data text --train 600 --out shards)
seen=0
for _ in $(seq 20); do  # a fast machine may have written it before anybody looks
  rm -rf shards shards.*
  "${learn[@]}" >log 2>&1 &
  pid=$!
  while ! begun $pid shards.gradus-unfinished; do sleep 0.01; done
  kill -STOP $pid 2>/dev/null || true
  if [[ -e shards.gradus-unfinished ]]; then seen=1; break; fi
  kill -CONT $pid 2>/dev/null || true
  wait $pid || true
done
[[ $seen -eq 1 ]] || wrong "nobody saw the folder that gpt_tokens writes"
refuses 1 '^gpt_tokens: shards: another process is writing it, as shards.gradus-unfinished; wait for it' "${learn[@]}"
[[ -e shards.gradus-unfinished ]] || wrong "a folder that a process was writing is gone"
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null || true
[[ -e shards.gradus-unfinished && ! -e shards ]] || wrong "a killed process left $(ls -d shards*)"
echo x >shards.gradus-unfinished/left
succeeds "${learn[@]}"
[[ $(ls -d shards*) == shards ]] || wrong "the same command left $(ls -d shards*)"
[[ $(ls shards) == $'tokenizer.json\ntrain.bin\nval.bin' ]] || wrong "the shards are $(ls shards)"

# ---- a program that is compiled: `cmake --build` is played by a process that has started another one, which ends in
# order if it is asked to, as Ninja does
cp -r "$source/scripts" checkout/
cp "$gradus" checkout/build/command/examples/
cat >bin/cmake <<'PLAYED'
#!/bin/sh
case $1 in
  -S) shift 3; : >"$1/build.ninja"; exit ;;
  --version) echo "cmake version 3.31.0"; exit ;;
esac
if [ -e finish ]; then exit 1; fi
sh -c 'trap "sleep 0.5; rm compiling; exit" TERM; echo $$ >compiling; while :; do sleep 0.1; done' &
wait
PLAYED
chmod +x bin/cmake
export PATH=$work/bin:$PATH
train=(checkout/build/command/examples/gradus train --data text --layers 1)
for signal in KILL TERM HUP INT; do
  rm -f compiling
  # A shell has its children ignore SIGINT.
  env --default-signal=INT,HUP "${train[@]}" --steps 1 >log 2>&1 &
  pid=$!
  until_is 60 test -s compiling || { wrong "nothing is compiled: $(cat log)"; break; }
  compiler=$(cat compiling)
  kill -"$signal" $pid
  wait $pid 2>/dev/null && wrong "SIG$signal did not end the command"
  : >finish
  # It waits for what the first one has left, which ends by itself.
  refuses 1 'the trainer could not be compiled' "${train[@]}" --steps 1
  [[ ! -e compiling ]] || wrong "SIG$signal: another command compiled in the folder while a compiler went on"
  until_is 20 gone "$compiler" || { wrong "SIG$signal: what it had started goes on"; kill -KILL "$compiler"; }
  rm finish
done
[[ $failures -eq 0 ]] || { echo "$failures failures"; exit 1; }
echo "all as expected"
