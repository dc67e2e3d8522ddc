#!/usr/bin/env bash
# A trainer's own objects have no kernels: those of its policy are in gradus::compiled, which all sizes share.
#
#   no_kernels.sh COMPILER ROOT [TRAINER...]     gpt, llama and bert, or those that are named
#
# The trainers are compiled without inlining, for two processors: what they instantiate decides, not what a compiler has
# inlined on the machine where the test runs. __OPTIMIZE__ gives kernels the name that optimized ones have.
set -euo pipefail
export LC_ALL=C
[[ $# -ge 2 ]] || { echo "usage: $0 COMPILER ROOT [gpt|llama|bert...]" >&2; exit 2; }
compiler=$1 root=$2 trainers=("${@:3}")
((${#trainers[@]})) || trainers=(gpt llama bert)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
launcher=$(command -v ccache || true)

processors=("")
if [[ $("$compiler" -dumpmachine) == x86_64* ]]; then
  processors=(-march=x86-64-v3 "-march=x86-64-v4 -mavx512vbmi -mavx512bf16")
fi
# Operations whose kernels are compiled themselves. Those of all others pass extents on to functions of cpu_kit.
operations=$(grep -oE 'kernel<op::[a-z0-9_]+' "$root/include/gradus/compiled_kernels.hpp" | sed 's/.*:://' | sort -u)
# What divides work among threads is compiled with what it calls. A BERT's rows of any length have calls that merge
# extents with a bound, and copies and sums of whole rows by their numbers.
others='parallel_tasks|parallel_ranges|parallel_elements|for_rows|merged_axes|broadcast_axes|bounded_reduction'
others+='|reduction_grid|copy_indexed|add_indexed|fail_index'

status=0
for processor in "${processors[@]}"; do
  read -ra flags <<<"-std=c++20 -O0 -D__OPTIMIZE__=1 -DGRADUS_COMPILED=1 $processor -I$root/include"
  build=$(printf '#include <gradus/core/config.hpp>\nGRADUS_BUILD' |
    "$compiler" "${flags[@]}" -E -P -x c++ - | tail -n 1)
  for trainer in "${trainers[@]}"; do
    case $trainer in
      gpt) source="gpt/train.cpp" settings="" ;;
      llama) source="gpt/train.cpp" settings="-DGPT_ARCHITECTURE=llama -DGPT_KV_HEADS=2 -DGPT_TIED=0" ;;
      bert) source="bert/train.cpp" settings="" ;;
    esac
    read -ra more <<<"-DGRADUS_KERNELS_OF_$build=1 $settings"
    $launcher "$compiler" "${flags[@]}" "${more[@]}" -c "$root/examples/$source" -o "$work/$trainer.o"
    nm --defined-only "$work/$trainer.o" | sed -nE 's/^[0-9a-f]+ [TtWw] //p' >"$work/names"
    if ! grep -qE "^_ZN6gradus6kernelINS_2op${#build}$build" "$work/names"; then
      echo "$trainer, $processor: calls no operation: have these other names?"
      status=1
    fi
    kit="^_ZNK?6gradus7cpu_kit${#build}${build}[0-9]+"
    {
      grep -E "$kit" "$work/names" | grep -vE "$kit($others)[A-Z]" || true
      for operation in $operations; do
        grep -E "^_ZNK?6gradus6kernelINS_2op${#build}$build${#operation}${operation}[EIL]" "$work/names" || true
      done
    } >"$work/found"
    [[ -s $work/found ]] || continue
    status=1
    printf '%s, %s: has kernels, which compiled_kernels.hpp does not name:\n' "$trainer" "$processor"
    c++filt <"$work/found" | cut -c1-300
  done
done
((status)) || echo "no kernels in ${trainers[*]}, for ${#processors[@]} processors"
exit $status
