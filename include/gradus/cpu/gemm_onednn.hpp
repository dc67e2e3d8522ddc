#pragma once
// The one header that includes oneDNN.
#include <dnnl.h>

#include <cstddef>

#include "../core/error.hpp"

namespace gradus::cpu_kit {

/// C = A B + beta C on row-major float matrices, by oneDNN. Its sgemm was faster than its matmul primitive on every model shape
/// measured (docs/performance.md), needs no primitive to be made, and is the same function in its versions 2 and 3.
struct onednn_gemm {
  static void run(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const float* a,
                  std::size_t lda, const float* b, std::size_t ldb, float beta, float* c, std::size_t ldc) {
    const auto i = [](std::size_t x) { return static_cast<dnnl_dim_t>(x); };
    const dnnl_status_t status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', i(m), i(n), i(k), 1.0f, a, i(lda), b,
                                            i(ldb), beta, c, i(ldc));
    if (status != dnnl_success) throw error("matmul: oneDNN refused the matrix product; its memory may be exhausted");
  }
};

}  // namespace gradus::cpu_kit
