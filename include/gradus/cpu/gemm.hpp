#pragma once
#include <cstddef>
#include <type_traits>

#include "gemm_eigen.hpp"
#if defined(GRADUS_WITH_ONEDNN)
#include "gemm_onednn.hpp"
#endif

namespace gradus::cpu_kit {

#if defined(GRADUS_WITH_ONEDNN)
using float_gemm = onednn_gemm;
#else
using float_gemm = eigen_gemm;
#endif

/// C = op(A) op(B) + beta C on row-major matrices: op(A) is m x k, op(B) is k x n, lda/ldb/ldc are the row strides as stored. With a
/// bias (n values), C = op(A) op(B) + bias in every row, and beta is not looked at.
/// `Backend` names the library, so that programs built with different ones cannot be confused at link time.
template <class T, class Backend = std::conditional_t<std::is_same_v<T, float>, float_gemm, eigen_gemm>>
void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const T* a, std::size_t lda, const T* b,
          std::size_t ldb, T beta, T* c, std::size_t ldc, const T* bias = nullptr) {
  Backend::run(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc, bias);
}

}  // namespace gradus::cpu_kit
