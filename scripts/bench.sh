#!/usr/bin/env bash
# Builds and runs one benchmark, prints its table and the machine, and writes build/bench/NAME.json: a list of
# {name, value, unit}, with ratio where two are compared.
#
#   scripts/bench.sh NAME [ARGUMENTS...]      ARGUMENTS go to the benchmark, such as --benchmark_filter=matmul
#
# NAME is a folder of bench/: its run.py or run.sh, or else the Google Benchmark program bench_NAME.
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

names=""
for folder in bench/*/; do
  if compgen -G "${folder}*.cpp" >/dev/null || compgen -G "${folder}run.*" >/dev/null; then
    names+=" $(basename "$folder")"
  fi
done
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
  echo "There are:$names"
  exit 0
fi
[[ $# -ge 1 ]] || { echo "bench.sh: name a benchmark:$names" >&2; exit 2; }
name=$1
shift
[[ " $names " == *" $name "* && $name != *" "* && -n $name ]] ||
  { gradus_complain "bench.sh: no benchmark '$name'; there are:$names"; exit 2; }

gradus_setup bench
mkdir -p build/bench build/release
launcher=("-DGRADUS_CUDA_LAUNCHER=${GRADUS_CUDA_LAUNCHER:-}" "-DGRADUS_CUDA_PTX=${GRADUS_CUDA_LAUNCHER:+ON}")
if ! cmake --preset release "${launcher[@]}" >build/release/configure.log 2>&1; then
  cat build/release/configure.log >&2
  echo "bench.sh: configuring failed" >&2
  exit 1
fi
has_target() { ninja -C build/release -t query "$1" >/dev/null 2>&1; }
if has_target "bench_$name"; then cmake --build build/release --target "bench_$name"; fi

# The rows of an earlier run stay until there are new ones.
rows=build/bench/$name.json
export GRADUS_BENCH_JSON=$PWD/$rows.new
rm -f "$GRADUS_BENCH_JSON"
trap 'rm -f "$GRADUS_BENCH_JSON"' EXIT
if [[ -f bench/$name/run.py ]]; then
  python3 "bench/$name/run.py" "$@"
elif [[ -f bench/$name/run.sh ]]; then
  bash "bench/$name/run.sh" "$@"
else
  program=$(find build/release/bench -type f -name "bench_$name" -perm -u+x | head -n 1)
  [[ -n $program ]] || { echo "bench.sh: bench_$name was not built: is Google Benchmark there?" >&2; exit 1; }
  "$program" "$@" --benchmark_format=json >"build/bench/$name.google.json"
  python3 scripts/bench_report.py "build/bench/$name.google.json" "$GRADUS_BENCH_JSON"
fi
[[ -s $GRADUS_BENCH_JSON ]] || { echo "bench.sh: bench/$name wrote no rows to \$GRADUS_BENCH_JSON" >&2; exit 1; }
mv "$GRADUS_BENCH_JSON" "$rows"
python3 scripts/bench_report.py --machine
echo "rows: $rows"
