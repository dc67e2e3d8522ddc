#!/usr/bin/env bash
# The command `gradus` (examples/command): installs what is missing, builds the command and runs it.
#
#   scripts/gradus.sh SUBCOMMAND ...     train, train-bert, sample, evaluate, convert or tokens; --help lists them
#
# scripts/train.sh, train-bert.sh and sample.sh are its subcommands of these names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup.sh"

build=$root/build/command
if ! { mkdir -p "$build" && : >>"$build/lock"; } 2>/dev/null; then
  gradus_complain "gradus: $build: cannot be written; copy the project to a folder of your own"
  exit 1
fi
exec {building}>"$build/lock"  # one process of a machine at a time
if command -v flock >/dev/null; then flock "$building"; fi
# A GPT's training without a text of its own has the default one.
if [[ " $* " == " train "* && ! " $* " =~ \ --(data|config|resume|plan|help) ]]; then
  gradus_setup train
else
  gradus_setup build
fi >&2
[[ -x $build/examples/gradus ]] || echo "compiling the command gradus, once: half a minute" >&2
if ! {
  { [[ -f $build/build.ninja ]] ||
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGRADUS_CUDA=OFF -DGRADUS_MPI=OFF \
      -DGRADUS_BUILD_TESTS=OFF -DGRADUS_BUILD_BENCHMARKS=OFF; } &&
    cmake --build "$build" --target gradus_command
} >"$build/build.log" 2>&1; then
  grep -E 'rror' "$build/build.log" | head -n 5 >&2 || true
  gradus_complain "gradus: the command could not be compiled; see $build/build.log"
  exit 1
fi
exec {building}>&-
exec "$build/examples/gradus" "$@"
