#!/usr/bin/env bash
# The layering check is itself checked: on a small tree that is in order it is silent, and each way of breaking the
# order makes it fail with a line that names the file.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# fresh: a tree in order. put FILE LINE...: writes a header.
put() { local file=$tree/include/gradus/$1; shift; mkdir -p "$(dirname "$file")"; printf '%s\n' "$@" >"$file"; }
fresh() {
  rm -rf "$tree/include"
  put core/shape.hpp '#include <cstddef>'
  put tensor/tensor.hpp '#include <gradus/core/shape.hpp>'
  put cpu/gemm.hpp '#include <cmath>' '#include <gradus/core/shape.hpp>'
  put core/platform_posix.ipp '#include <sys/mman.h>' '#include <unistd.h>'
  put ops/matmul/matmul.hpp '#include <gradus/tensor/tensor.hpp>'
  put ops/matmul/cpu.hpp '#include "matmul.hpp"' '#include <gradus/cpu/gemm.hpp>'
  put gradus.hpp '#include <gradus/ops/matmul/cpu.hpp>'
  put cuda.hpp '#include <gradus/ops/matmul/cuda.hpp>'
}
failures=0
passes() { bash "$here/check.sh" "$1" "$tree" || { echo "$2: rule '$1' should pass"; failures=1; }; }
rejects() {
  local output
  if output=$(bash "$here/check.sh" "$1" "$tree"); then
    echo "$2: rule '$1' did not notice"; failures=1
  elif [[ $output != *include/gradus/*:* ]]; then
    echo "$2: rule '$1' failed without naming the file: $output"; failures=1
  fi
}

fresh; for rule in order ops builds vendors; do passes $rule "a tree in order"; done
fresh; put core/shape.hpp '  #  include "../tensor/tensor.hpp"'
rejects order "core above tensor, by a relative path"
fresh; put core/shape.hpp '// #include <gradus/tensor/tensor.hpp>';    passes order "an include in a comment"
fresh; put core/shape.hpp '#include <gradus/gradus.hpp>';              rejects order "a part that includes the whole"
fresh; put shapes/all.hpp '#include <gradus/core/shape.hpp>';          rejects order "an unknown folder"
fresh; put gradus.hpp '#include <gradus/gpu/launch.hpp>';             rejects order "the CPU header with the GPU in it"
fresh; put ops/matmul/matmul.hpp '#include <gradus/cpu/gemm.hpp>';     rejects ops "an op's rules with a toolkit"
fresh; put ops/matmul/matmul.hpp '#include "cpu.hpp"';                 rejects ops "an op's rules with a kernel"
fresh; put ops/matmul/cuda.hpp '#include <gradus/cpu/gemm.hpp>';       rejects ops "a GPU kernel with the CPU toolkit"
fresh; put cuda.hpp '#include <cstddef>';                              rejects ops "an op that cuda.hpp lacks"
fresh; rejects unused "a table that permits what nobody uses"
fresh; put cpu/gemm.hpp 'namespace gradus::cpu_kit {';                 rejects builds "a kernel that all builds share"
fresh; put cpu/gemm.hpp 'namespace gradus::cpu_kit::inline GRADUS_BUILD {'; passes builds "a kernel of a build"
fresh; put ops/matmul/matmul.hpp 'namespace op {'
rejects builds "an operation that all builds share"
fresh; put ops/matmul/matmul.hpp 'constexpr auto matmul(A&& a) {';     rejects builds "a function that all builds share"
fresh; put cpu/simd.hpp '#include <Eigen/Core>';                       rejects vendors "a header with Eigen in cpu/"
fresh; put interop/eigen.hpp '#include <Eigen/Core>' '#include <gradus/tensor/tensor.hpp>'
passes vendors "Eigen in interop/"
fresh; put tensor/view.hpp '#include <oneapi/dnnl/dnnl.h>';            rejects vendors "a header with oneDNN"
fresh; put cpu/gemm.hpp '#include <unistd.h>';                         rejects vendors "a system call in cpu/"
fresh; put cpu/blas.hpp '#include <cblas.h>';                          rejects vendors "a header with BLAS"
fresh; put gpu/sum.hpp '#include <cub/cub.cuh>';                      passes vendors "CUB in gpu/"
put gpu/max.hpp '#include <cub/block/block_reduce.cuh>';              rejects vendors "two headers with CUB"
fresh; put tensor/view.hpp '#include <cuda_runtime.h>';                rejects vendors "CUDA in tensor/"
fresh; put ranks/session.hpp '#include <mpi.h>';                        passes vendors "MPI in ranks/"
put ranks/exchange.hpp '#include <mpi.h>';                              rejects vendors "two headers with MPI"
exit $failures
