#!/usr/bin/env bash
# check.sh RULE ROOT: reads the #include lines of ROOT/include/gradus and of ROOT/examples and holds them against one
# rule.
#   order    a folder includes only folders below it (the table in order.txt)
#   unused   the table permits nothing that no header uses
#   ops      an op's rules name no backend; its cpu.hpp and cuda.hpp (and cpu_flash.hpp and the like) name
#            only their own; cuda.hpp includes every op of gradus.hpp
#   builds   what depends on compiler flags is of a build: the namespaces op and cpu_kit, and the functions that users
#            call
#   vendors  of libraries only nlohmann json, Eigen, cuBLASLt, CUB, cuDNN, NCCL, libcu++, MPI, NVTX and PCRE2 are
#            included, each by one header alone, in the folder it belongs to; besides them there are the headers of C++,
#            SIMD and the CUDA runtime, and those of the system, which core/platform alone includes
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 2 && -d $2/include/gradus ]] || {
  echo "usage: $0 order|unused|ops|builds|vendors ROOT (ROOT/include/gradus must exist)" >&2
  exit 2
}
rule=$1
root=$2
[[ $rule =~ ^(order|unused|ops|builds|vendors)$ ]] ||
  { echo "$0: no rule '$rule': order, unused, ops, builds or vendors" >&2; exit 2; }

cd "$root"
if [[ $rule == builds ]]; then
  # core/config.hpp says what a build is. A namespace that every build shares says so in its line.
  find include/gradus -regex 'include/gradus/\(cpu\|ops\|optim\)/.*\.hpp' -print0 | sort -z | xargs -0 -r awk '
    function complain(message) { printf "%s:%d: %s\n", FILENAME, FNR, message; bad = 1 }
    /^namespace ([a-z:]*::)?(op|cpu_kit) \{$/ {
      complain("write namespace …::inline GRADUS_BUILD {, or add // shared by all builds")
    }
    /^constexpr auto / && FILENAME ~ /\/ops\// && FILENAME !~ /\/(cuda[a-z_]*|layout)\.hpp$/ {
      complain("a function that users call starts with GRADUS_OF_BUILD")
    }
    END { exit bad }'
  exit
fi
# One line an include: FILE LINE TARGET. A quoted include is taken from the including file's folder if it is there.
list_includes() {
  local folders=(include/gradus)
  if [[ -d examples ]]; then folders+=(examples); fi
  find "${folders[@]}" \( -name '*.hpp' -o -name '*.ipp' -o -name '*.cpp' -o -name '*.cu' \) -print0 | sort -z |
    xargs -0 -r awk '
      match($0, /^[ \t]*#[ \t]*include[ \t]*[<"][^>"]+[>"]/) {
        text = substr($0, RSTART, RLENGTH)
        quoted = text ~ /"$/
        sub(/^[^<"]*[<"]/, "", text); sub(/[>"]$/, "", text)
        if (quoted && text !~ /^gradus\//) {
          path = FILENAME; sub(/[^\/]*$/, "", path); path = path text
          while (path ~ /[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", path)
          if ((getline line < path) >= 0) { text = path; sub(/^include\//, "", text); close(path) }
        }
        print FILENAME, FNR, text
      }'
}

list_includes | awk -v rule="$rule" -v table="$here/order.txt" '
  function complain(message) { printf "%s:%s: %s\n", $1, $2, message; bad = 1 }
  # The folder of a path under gradus/: its first component, or "root" for gradus.hpp and cuda.hpp themselves.
  function folder_of(path,   rest) {
    rest = path; sub(/^(include\/)?gradus\//, "", rest)
    if (rest !~ /\//) return "root"
    sub(/\/.*/, "", rest); return rest
  }
  # The backend that a header is named after, as cpu.hpp and cpu_flash.hpp are; "" for another one.
  function backend_of(path) {
    if (path !~ /\/(cpu|cuda)(_[a-z_]+)?\.hpp$/) return ""
    sub(/(_[a-z_]+)?\.hpp$/, "", path); sub(/.*\//, "", path); return path
  }
  BEGIN {
    while ((getline line < table) > 0) {
      if (line ~ /^[ \t]*(#|$)/) continue
      colon = index(line, ":"); name = substr(line, 1, colon - 1)
      count = split(substr(line, colon + 1), names, " ")
      for (i = 1; i <= count; ++i) {
        allowed[name, names[i]] = 1
        if (rule == "order" && !(names[i] in known)) {
          print table ": " name " may include " names[i] ", which is not above it"
          bad = 1
        }
      }
      known[name] = 1
    }
    owner["nlohmann json"] = "io"; owner["Eigen"] = "interop"
    owner["cuBLASLt"] = "gpu"; owner["CUB"] = "gpu"; owner["cuDNN"] = "gpu"
    owner["NCCL"] = "ranks"; owner["libcu++"] = "interop"; owner["NVTX"] = "gpu"; owner["MPI"] = "ranks"
    owner["PCRE2"] = "tokenizer"
  }
  {
    from = $1 ~ /^examples\// ? "examples" : folder_of($1)
    to = $3 ~ /^gradus\// ? folder_of($3) : ""
  }
  rule == "order" && to != "" && from != "examples" {
    if (from == "root") {
      if ($1 ~ /\/gradus\.hpp$/ && $3 ~ /(^|\/)(gpu\/|cuda(\/|\.hpp$))/)
        complain("gradus.hpp includes the GPU header " $3)
    } else if (!(from in known)) complain("the folder " from " is not in tests/layering/order.txt")
    else if (to == "root") complain(from "/ includes " $3 ", which includes everything")
    else if (from != to && !((from, to) in allowed)) complain(from "/ includes " $3 ", but " to "/ is not below it")
  }
  to != "" { used[from, to] = 1 }
  rule == "ops" && to == "ops" && $1 ~ /include\/gradus\/(gradus|cuda)\.hpp$/ {
    op = $3
    sub(/\/cpu\.hpp$/, "/cuda.hpp", op)
    if ($1 ~ /cuda\.hpp$/) on_gpu[op] = 1
    else of_gradus[op] = $3
  }
  rule == "ops" && from == "ops" && to != "" {
    backend = backend_of($1)
    named = to == "gpu" ? "cuda" : to == "cpu" ? to : backend_of($3)
    if (named != "" && named != backend) {
      if (backend == "") complain("the rules of an op include a backend: " $3)
      else complain("a " backend " kernel includes another backend: " $3)
    }
  }
  rule == "vendors" && from != "examples" {
    vendor = ""
    if ($3 ~ /^nlohmann\//) vendor = "nlohmann json"
    else if ($3 ~ /^Eigen\//) vendor = "Eigen"
    else if ($3 ~ /^cublas/) vendor = "cuBLASLt"
    else if ($3 ~ /^cub\//) vendor = "CUB"
    else if ($3 ~ /^cudnn/) vendor = "cuDNN"
    else if ($3 ~ /^nccl\./) vendor = "NCCL"
    else if ($3 ~ /^cuda\/std\//) vendor = "libcu++"
    else if ($3 ~ /^nvtx3\//) vendor = "NVTX"
    else if ($3 == "mpi.h") vendor = "MPI"
    else if ($3 == "pcre2.h") vendor = "PCRE2"
    else if ($3 ~ /^cuda.*\.h$/) {
      if (from != "gpu" && $1 !~ /\/cuda(_[a-z_]+)?\.hpp$/) complain("only gpu/ and cuda.hpp headers include " $3)
    } else if ($3 ~ /^sys\/|^(fcntl|io|process|psapi|pthread|sched|share|unistd|windows|xlocale)\.h$/) {
      if ($1 !~ /\/core\/platform[a-z_]*\.[hi]pp$/) complain("only core/platform includes the system\047s " $3)
    } else if ($3 ~ /[.\/]/ && $3 !~ /^gradus\/|^sanitizer\/|intrin\.h$|^(arm_neon|cxxabi)\.h$/)
      complain("no header includes the library of " $3)
    if (vendor != "") {
      if (from != owner[vendor]) complain($3 " belongs in one header of " owner[vendor] "/")
      else if ((vendor in first) && first[vendor] != $1)
        complain($3 ": " first[vendor] " is already the one header that includes " vendor)
      first[vendor] = $1
    }
  }
  END {
    for (op in of_gradus)
      if (!(op in on_gpu)) {
        bad = 1
        print "include/gradus/cuda.hpp: gradus.hpp includes " of_gradus[op] ", so include " op
      }
    if (rule == "unused")
      for (edge in allowed)
        if (!(edge in used)) {
          split(edge, e, SUBSEP); bad = 1
          print "include/gradus/" e[1] ": order.txt lets it include " e[2] "/, and nothing there does"
        }
    exit bad
  }
'
