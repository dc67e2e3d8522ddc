#!/usr/bin/env bash
# check.sh conformance MPIRUN PROGRAM RANKS: the suite of communicators on so many processes.
# check.sh failures MPIRUN PROGRAM RANKS WORK [ROUNDS]: of the ranks of tests/mpi/failures.cpp one fails, by shared
# memory and by messages. All must end, and a line must name it. ROUNDS times (4 unless given) a random rank is killed;
# then they must end within 10 seconds.
# Both exit with 77 where MPIRUN starts no processes.
set -uo pipefail
[[ $# -ge 4 && -x $3 ]] || {
  echo "usage: $0 conformance MPIRUN PROGRAM RANKS | failures MPIRUN PROGRAM RANKS WORK [ROUNDS]" >&2
  exit 2
}
what=$1 mpirun=$2 program=$(realpath "$3") ranks=$4

# More ranks than processors, and as root where tests run as root; for Open MPI 4, and for 5.
export OMPI_MCA_rmaps_base_oversubscribe=true PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_NUM_THREADS=1
if ! said=$("$mpirun" -n 2 true 2>&1); then
  echo "skipped: $mpirun starts no two processes here: $(grep -m 1 . <<<"$said")"
  exit 77
fi

if [[ $what == conformance ]]; then exec "$mpirun" -n "$ranks" "$program" --no-colors; fi

work=$5 rounds=${6:-4}
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 2
failures=0
wrong() { echo "FAILED: $*"; tail -n 20 out err; failures=$((failures + 1)); }
fails() {  # REGEX ARGUMENTS...: a rank of the program fails
  local regex=$1 status=0
  shift
  timeout 60 "$mpirun" -n "$ranks" "$program" "$@" >out 2>err </dev/null || status=$?
  [[ $status -ne 0 && $status -ne 124 ]] || wrong "status $status: $*"
  grep -qE -- "$regex" out err || wrong "no line matches '$regex': $*"
}
all_run() { [[ $(grep -cE '^rank [0-9]+ [0-9]+$' out 2>/dev/null) -eq $ranks ]]; }
all_ended() {
  local pid
  for pid in $pids; do ! kill -0 "$pid" 2>/dev/null || return 1; done
}
until_it() {  # SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [[ $SECONDS -lt $end ]] || return 1
    sleep 0.1
  done
}

for messages in "" 1; do
  if [[ -n $messages ]]; then export BY_MESSAGES=1; fi
  last=$((ranks - 1))
  fails "^rank $last: ended by an exception" throw $last
  fails "rank 1 calls nothing more, but rank 0 calls all_reduce" leave 1
  fails "rank $last calls broadcast of 10 f32.* but rank 0 calls all_reduce of 1000000 f32 .sum, tree." mismatch $last
done
for ((round = 1; round <= rounds; ++round)); do
  if [[ $((round % 2)) -eq 0 ]]; then export BY_MESSAGES=1; else unset BY_MESSAGES; fi
  rank=$((RANDOM % ranks))
  rm -f out err  # the job opens them in its own time
  timeout 120 "$mpirun" -n "$ranks" "$program" reduce >out 2>err </dev/null &
  job=$!
  until_it 60 all_run || wrong "round $round: the ranks do not start"
  pids=$(sed -n 's/^rank [0-9]* //p' out)
  pid=$(sed -n "s/^rank $rank //p" out)
  sleep "0.$((RANDOM % 500 + 100))"
  kill -KILL "$pid"
  until_it 10 all_ended || { wrong "round $round: rank $rank was killed, and others go on"; kill -KILL $pids; }
  wait $job && wrong "round $round: status 0"
  # Open MPI's mpirun names the rank, MPICH's the process.
  grep -qE "rank $rank |PID $pid" err out || wrong "round $round: no line names rank $rank"
done
[[ $failures -eq 0 ]] && echo "no rank hangs; $rounds were killed"
exit $((failures > 0))
