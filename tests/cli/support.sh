# Sourced by the checks of the programs: what a command must do.
failures=0
wrong() { echo "FAILED: $*"; failures=$((failures + 1)); }

# refuses STATUS REGEX COMMAND...: it ends with STATUS and one line on stderr, which matches.
refuses() {
  local expected=$1 regex=$2 status=0
  shift 2
  "$@" >out 2>err </dev/null || status=$?
  [[ $status -eq $expected ]] || wrong "status $status, not $expected: $*"
  sed -i 's/\r$//' err  # of a program of Windows
  [[ $(wc -l <err) -eq 1 ]] || wrong "$(wc -l <err) lines on stderr, not one: $*: $(head -c 300 err)"
  grep -qE -- "$regex" err || wrong "'$(cat err)' does not match '$regex': $*"
}
# succeeds COMMAND...
succeeds() { "$@" >out 2>err </dev/null || wrong "status $?: $*: $(tail -n 3 err)"; }
# has FILE REGEX: a line of it matches.
has() { grep -qE -- "$2" "$1" || wrong "$1 has no line that matches '$2': $(head -c 300 "$1")"; }
