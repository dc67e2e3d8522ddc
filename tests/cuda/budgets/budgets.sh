#!/usr/bin/env bash
# budgets.sh NVCC INCLUDE [LAUNCHER...]: the kernels of kernels.cu stay within the ceilings of budgets.txt: registers,
# and no spills; with a launcher that counts (it writes GPUSIM_STATS), PTX instructions, bytes, bank conflicts and the
# blocks that a multiprocessor holds; with nvdisasm, SASS instructions of loops.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
nvcc=$1 include=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # ARGUMENTS...
  "$nvcc" -std=c++20 --expt-relaxed-constexpr -DGRADUS_WITH_CUDA=1 -I"$include" "$@" "$here/kernels.cu"
}
for sm in 80 90; do
  compile -arch=sm_$sm -Xptxas -v -cubin -o "$work/$sm.cubin" >"$work/$sm.log" 2>&1 ||
    { cat "$work/$sm.log" >&2; exit 1; }
done
: >"$work/stats"
if [[ $# -gt 0 ]]; then
  compile -cudart shared --no-compress -gencode arch=compute_80,code=compute_80 -o "$work/kernels" -lcublasLt
  GPUSIM_STATS=$work/stats "$@" "$work/kernels"
fi
[[ -s $work/stats ]] || echo "no launcher that counts: registers and spills only"
# Loops: from a label to a branch back to it. The shortest one with copies to shared memory, a kernel.
: >"$work/loops"
if disassembler=$(command -v nvdisasm); then
  "$disassembler" -c "$work/80.cubin" | awk '
    /^\.text\./ { kernel = $1; at = 0; delete label; next }
    match($0, /^\.L_x_[0-9]+:/) { label[substr($0, 1, RLENGTH - 1)] = at; next }
    /^[[:space:]]+\/\*[0-9a-f]+\*\// {
      copies[kernel, at] = /LDGSTS/
      if (match($0, /BRA.*\(\.L_x_[0-9]+\)/)) {
        to = substr($0, RSTART, RLENGTH); sub(/.*\(/, "", to); sub(/\)/, "", to)
        if (to in label) {
          found = 0
          for (i = label[to]; i <= at; ++i) found += copies[kernel, i]
          if (found > 8) print kernel, at + 1 - label[to]
        }
      }
      ++at
    }' >"$work/loops"
else
  echo "no nvdisasm: loops are not counted in SASS"
fi
awk -v logs="$work/80.log $work/90.log" -v stats="$work/stats" -v loops="$work/loops" '
  function number(line, key,   text) {
    if (!match(line, "\"" key "\": \\[?[0-9.]+")) return 0
    text = substr(line, RSTART, RLENGTH)
    sub(/.*[^0-9.]/, "", text)
    return text + 0
  }
  function over(kernel, what, is, may) {
    if (is <= may) return
    print kernel ": " what ": " is ", the budget is " may
    ++failures
  }
  # Registers and spills: the most of a kernel over its instantiations.
  function read_log(file, sm,   line, name) {
    while ((getline line < file) > 0) {
      if (match(line, /_Z[A-Za-z0-9_]+/) && line ~ /Compiling entry/) name = substr(line, RSTART, RLENGTH)
      else if (match(line, /[1-9][0-9]* bytes spill stores/)) { print name ": spills on sm_" sm; ++failures }
      else if (match(line, /Used [0-9]+ registers/)) used[sm, name] = substr(line, RSTART + 5) + 0
    }
  }
  function registers(kernel, sm,   key, most) {
    for (key in used)
      if (index(key, sm SUBSEP) == 1 && key ~ "cuda_kit[0-9]+" kernel "I" && used[key] > most) most = used[key]
    if (!most) { print kernel ": not found in what ptxas says"; ++failures }
    return most
  }
  function resident(sm, regs, threads, shared,   by, memory) {
    memory = sm == 80 ? 167936 : 233472
    by = int(65536 / (int((regs * 32 + 255) / 256) * 256 * threads / 32))
    if (int(memory / (shared + 1024)) < by) by = int(memory / (shared + 1024))
    return by < int(2048 / threads) ? by : int(2048 / threads)
  }
  BEGIN {
    split(logs, file, " ")
    read_log(file[1], 80); read_log(file[2], 90)
    while ((getline line < stats) > 0) {
      if (!match(line, /"kernel": "[^"]*"/)) continue
      name = substr(line, RSTART + 11, RLENGTH - 12)
      sub(/<.*/, "", name); sub(/.*::/, "", name); sub(/^void /, "", name)
      launch[name, ++launches[name]] = line
      ++counted
      over(name, "ways of bank conflicts", number(line, "bank_conflict_ways"), 1.1)
    }
    while ((getline line < loops) > 0) {
      split(line, part, " ")
      if (!(part[1] in loop) || part[2] < loop[part[1]]) loop[part[1]] = part[2] + 0
    }
  }
  /^#/ || !NF { next }
  {
    ++rows
    regs[80] = registers($1, 80); regs[90] = registers($1, 90)
    over($1, "registers on sm_80", regs[80], $6)
    for (key in loop)
      if ($9 > 0 && key ~ "cuda_kit[0-9]+" $1 "I" && key !~ /ruled_scores/) {
        over($1, "instructions of the loop", loop[key], $9)
        ++loops_seen
      }
    if (!counted) next
    line = launch[$1, $2]
    if (line == "") { print $1 ": launch " $2 " was not counted"; ++failures; next }
    ptx = number(line, "warp_instructions") / $3
    moved = (number(line, "unique_bytes_read") + number(line, "unique_bytes_written")) / 1e6
    shared = number(line, "static_shared") + number(line, "dynamic_shared")
    over($1, "PTX instructions a unit", ptx, $4)
    over($1, "MB", moved, $5)
    for (sm = 80; sm <= 90; sm += 10) {
      blocks[sm] = resident(sm, regs[sm], number(line, "threads"), shared)
      over($1, "blocks missing on sm_" sm, $(sm == 80 ? 7 : 8) - blocks[sm], 0)
    }
    printf "%-30s %6.1f PTX a unit, %6.3f MB, %3d registers, %d blocks on sm_80, %d on sm_90\n",
      $1, ptx, moved, regs[80], blocks[80], blocks[90]
  }
  END {
    if (rows < 10) { print "budgets.txt has " rows + 0 " rows"; ++failures }
    print rows " budgets, " counted + 0 " launches, " loops_seen + 0 " loops, " failures + 0 " failures"
    exit failures > 0
  }' "$here/budgets.txt"
