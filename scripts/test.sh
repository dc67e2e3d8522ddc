#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test; the last line is `N passed, N failed, N skipped`.
#
#   scripts/test.sh [--preset NAME] [--only REGEX | --quick] [--jobs N]
#
#   --preset NAME   release (default), or another of CMakePresets.json, such as asan-ubsan, clang, aarch64 or windows
#   --only REGEX    build and run only the tests whose ctest name matches, such as unit_core, compile_fail or header
#   --quick         build and run only what finds most mistakes in an operation or below it: unit tests from core to
#                   ops, gradients, messages about shapes, and layers
#   --jobs N        programs to compile or run at a time (default: one a core, and no more than memory allows)
#
# With GRADUS_CUDA_LAUNCHER in the environment, CUDA programs are built as PTX and started by that command: an emulator,
# where there is no GPU.
set -euo pipefail
export LC_ALL=C  # digits are 0 to 9, and letters have one upper case
# numbers: status memory_jobs jobs built passed
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/setup.sh

fail() { gradus_complain "test.sh: $*"; exit 2; }
preset=release only="" jobs=""
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    --quick)
      only='^(unit_(core|memory|tensor|ops)|ops|grad|layering/.*|docs/lists_functions'
      only+='|compile_fail/(elementwise|layout|matmul|reduce)/g\+\+)$'
      shift ;;
    --preset | --only | --jobs)
      [[ $# -ge 2 && -n $2 && $2 != --* ]] || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) fail "unknown argument '$1'; --help lists what there is" ;;
  esac
done
status=0
[[ "" =~ $only ]] || status=$?
[[ $status -lt 2 ]] || fail "--only: '$only' is not a regular expression"
# A preset to build is one line of the file.
presets=$(sed -n '/"buildPresets"/,/]/s/.*"configurePreset": "\(.*\)".*/\1/p' CMakePresets.json | tr '\n' ' ')
[[ " $presets" == *" $preset "* && $preset != *" "* ]] || fail "no preset '$preset'; there are: ${presets% }"
if [[ -z $jobs ]]; then
  # A translation unit of templates may take 1.5 GB.
  memory_jobs=$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null || true)
  jobs=$(nproc)
  if [[ -n $memory_jobs && $memory_jobs -lt $jobs ]]; then jobs=$((memory_jobs > 0 ? memory_jobs : 1)); fi
fi
[[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs takes a number above 0, not '$jobs'"

groups=(test)
if [[ $preset =~ ^(clang|clang19-libcxx|aarch64|windows)$ ]]; then groups+=("$preset"); fi
gradus_setup "${groups[@]}"

build=build/$preset
mkdir -p "$build"
echo "configure: preset $preset in $build"
launcher=("-DGRADUS_CUDA_LAUNCHER=${GRADUS_CUDA_LAUNCHER:-}" "-DGRADUS_CUDA_PTX=${GRADUS_CUDA_LAUNCHER:+ON}")
if ! cmake --preset "$preset" "${launcher[@]}" >"$build/configure.log" 2>&1; then
  cat "$build/configure.log" >&2
  echo "test.sh: configuring failed" >&2
  exit 1
fi
grep -E '^-- gradus |^CMake Warning' "$build/configure.log" || true

# Of the tests that are named, what their command lines name and the build can make is built: programs and objects.
targets=(all)
if [[ -n $only ]]; then
  chosen=$(ctest --preset "$preset" -N -V -R "$only" 2>&1 || true)
  if [[ $chosen == *"Total Tests: 0"* ]]; then fail "no test was run: none matches '$only'"; fi
  targets=()
  while read -r path; do
    path=${path%.run}
    if ninja -C "$build" -t query "$path" >/dev/null 2>&1; then targets+=("$path"); fi
  done < <(awk -v folder="$PWD/$build/" '{
      while (at = index($0, folder)) {
        $0 = substr($0, at + length(folder)); path = $0; sub(/[" ].*/, "", path); print path
      }
    }' <<<"$chosen" | sort -u)
fi

# Keep going past what does not compile: its test fails, and the others still run.
built=1
if [[ ${#targets[@]} -gt 0 ]]; then ninja -C "$build" -j "$jobs" -k 0 "${targets[@]}" || built=0; fi

ctest_arguments=(--preset "$preset" -j "$jobs" --output-junit "$PWD/$build/junit.xml")
if [[ -n $only ]]; then ctest_arguments+=(-R "$only"); fi
rm -f "$build/junit.xml" "$build/Testing/Temporary/LastTest.log"
passed=1
ctest "${ctest_arguments[@]}" | grep -vE '^ +Start +[0-9]+: ' || passed=0
if ! grep -qs '<testcase ' "$build/junit.xml"; then fail "no test was run${only:+: none matches '$only'}"; fi

if [[ $built -eq 0 ]]; then echo "test.sh: something did not compile, see above; that counts as one failure more"; fi
awk -v build_failures=$((1 - built)) -f scripts/count_tests.awk \
  "$build/junit.xml" "$build/Testing/Temporary/LastTest.log" || passed=0
[[ $built -eq 1 && $passed -eq 1 ]]
