#pragma once
// The one header that includes oneDNN.
#include <dnnl.h>

#include <algorithm>
#include <cstddef>

namespace gradus::cpu_kit {

/// Float products by oneDNN's sgemm. It was faster than oneDNN's matmul primitive on most model shapes measured
/// (docs/performance.md), needs no primitive to be made, and is the same function in versions 2 and 3.
struct onednn_gemm {
  /// C = op(A) op(B) + beta C on the calling thread; false if the library refused, for want of memory.
  static bool tile(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const float* a,
                   std::size_t lda, const float* b, std::size_t ldb, float beta, float* c, std::size_t ldc) {
    const auto dim = [](std::size_t x) { return static_cast<dnnl_dim_t>(x); };
    // With A transposed, oneDNN is faster on short sums (up to 15 %, docs/performance.md).
    const std::size_t run = transpose_a ? 256 : k;
    for (std::size_t p = 0; p < k; p += run) {
      const dnnl_status_t status =
          dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', dim(m), dim(n), dim(std::min(run, k - p)), 1.0f,
                     a + (transpose_a ? p * lda : p), dim(lda), b + (transpose_b ? p : p * ldb), dim(ldb),
                     p > 0 ? 1.0f : beta, c, dim(ldc));
      if (status != dnnl_success) return false;
    }
    return true;
  }
};

}  // namespace gradus::cpu_kit
