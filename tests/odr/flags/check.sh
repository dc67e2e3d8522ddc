#!/usr/bin/env bash
# check.sh COMPILER INCLUDE_DIR [FLAGS...]: one program of five parts, each compiled with flags of its own, linked in
# several orders. Each part must run its own kernels, and the parts must be able to use each other's tensors, parameters
# and recordings. All have FLAGS, such as those of the shared library.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: $0 COMPILER INCLUDE_DIR [FLAGS...]" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
compiler=$1 include=$2 common=("${@:3}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tag FLAGS...: the name under which kernels of these flags are compiled.
tag() { echo '#include <gradus/core/config.hpp>
GRADUS_BUILD' | "$compiler" -std=c++20 -I "$include" "$@" -E -P -x c++ - | tail -n 1; }
sets=("" "-O0" "-O3" "-O2 -fopenmp" "-O1 -DNDEBUG")
case $(uname -m) in
  x86_64)
    native="-O2 -march=native"
    if [[ $(tag -O2 -march=native) == "$(tag -O3 -march=x86-64-v3)" ]]; then native="-O2 -mavx2 -mfma"; fi
    sets=("" "-O1" "-O3 -march=x86-64-v3" "-O2 -mavx2" "$native -fopenmp")
    # What instructions a compiler may use is in the name: each of these adds some.
    flags=("" -march=x86-64-v2 -mavx -mavx2 "-mavx2 -mf16c" "-mavx2 -mfma" "-mavx2 -mfma -mf16c" -march=x86-64-v3
           -mavx512f -march=x86-64-v4 "-march=x86-64-v4 -mavx512bf16" "-march=x86-64-v4 -mavx512vbmi"
           -march=sapphirerapids)
    tags=$(for f in "${flags[@]}"; do read -ra words <<<"$f"; tag -O1 ${words[@]+"${words[@]}"}; done)
    if [[ $(sort -u <<<"$tags" | wc -l) -ne ${#flags[@]} ]]; then
      echo "flags with different instructions have one tag:" $tags
      exit 1
    fi ;;
esac
if ! echo '#include <omp.h>' | "$compiler" -fopenmp -fsyntax-only -x c++ - 2>/dev/null; then
  sets=("${sets[@]/-fopenmp/}")
fi
launcher=$(command -v ccache || true)
compile() {
  $launcher "$compiler" -std=c++20 -Wall -Wextra -Werror -I "$include" "$@" ${common[@]+"${common[@]}"}
}
objects=()
for i in "${!sets[@]}"; do
  read -ra flags <<<"${sets[$i]}"
  compile ${flags[@]+"${flags[@]}"} -DPART="$i" -DFLAGS="\"${sets[$i]}\"" -c "$here/part.cpp" -o "$work/part_$i.o"
  objects+=("$work/part_$i.o")
done
compile -c "$here/main.cpp" -o "$work/main.o"

# No two parts may share a definition that depends on flags. Parts whose kernels are of one build would. On x86-64 two
# processors' parts without inlining tell: what a compiler inlines differs from one to the next. (__OPTIMIZE__ gives
# kernels the name that optimized ones have.)
compared=("${objects[@]}")
if [[ $(uname -m) == x86_64 ]]; then
  compared=("$work/v3.o" "$work/v4.o")
  plain=(-O0 -D__OPTIMIZE__=1 -DPART=0 '-DFLAGS=""' -c "$here/part.cpp")
  compile "${plain[@]}" -march=x86-64-v3 -o "$work/v3.o"
  compile "${plain[@]}" -march=x86-64-v4 -mavx512vbmi -mavx512bf16 -o "$work/v4.o"
fi
for object in "${compared[@]}"; do
  nm -C --defined-only "$object" | awk '$2 ~ /^[WVu]$/ { $1 = $2 = ""; print }' | sort -u |
    grep -E 'kernel<|pack<|op::|cpu_kit::' | grep -vE -e '^  (std|__gnu_cxx)::' \
      -e 'cpu_kit::(workers|default_thread_count|tile_permission|wanted_threads|[a-z_]*processors[a-z_]*)' || true
done | sort | uniq -d >"$work/shared"
if [[ -s $work/shared ]]; then
  echo "parts with different flags share definitions:"
  head -n 20 "$work/shared"
  exit 1
fi

run() {
  "$compiler" "$@" -o "$work/program" -pthread ${openmp:+-fopenmp} ${common[@]+"${common[@]}"}
  "$work/program"
}
openmp=""
if [[ "${sets[*]}" == *-fopenmp* ]]; then openmp=1; fi
reversed=()
for object in "${objects[@]}"; do reversed=("$object" ${reversed[@]+"${reversed[@]}"}); done
run "$work/main.o" "${objects[@]}"
run "${objects[@]}" "$work/main.o"
run "${reversed[@]}" "$work/main.o"
run "${objects[2]}" "${objects[4]}" "${objects[0]}" "$work/main.o" "${objects[3]}" "${objects[1]}"
echo "ran ${#sets[@]} parts of $compiler in 4 orders"
