#!/usr/bin/env bash
# A trainer's own objects have no kernels: those of its policy are in gradus::compiled, which all sizes share.
#
#   no_kernels.sh OBJECT...
set -euo pipefail
export LC_ALL=C
status=0
others='parallel_(tasks|ranges|elements)|cpu_kit::workers|^_Z|, 1000000000000[0-9]{6}ul|_indexed|fail_index'
for object in "$@"; do
  # What divides work among threads is compiled with what it calls. A BERT's rows of any length have calls that pass on
  # extents with a bound (10^18 more), and copies and sums of whole rows by their numbers.
  found=$(nm -C --defined-only "$object" | sed -nE 's/^[0-9a-f]+ [TtWw] //p' |
    grep -E 'gradus::(cpu_kit::|kernel<)' | grep -vE "$others" || true)
  [[ -z $found ]] && continue
  status=1
  printf '%s has kernels, which compiled_kernels.hpp does not name:\n%s\n' "$object" "$(cut -c1-300 <<<"$found")"
done
((status)) || echo "$# objects without a kernel"
exit $status
