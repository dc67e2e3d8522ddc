#pragma once
// The one header that includes Eigen.

// g++ 12 takes the deliberately undefined upper halves in its own AVX-512 intrinsics, which Eigen uses, for a mistake.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>

namespace gradus::cpu_kit {

/// Products of any floating type, by Eigen.
struct eigen_gemm {
  /// C = op(A) op(B) + beta C (beta 0 or 1) on the calling thread.
  template <class T>
  static bool tile(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const T* a,
                   std::size_t lda, const T* b, std::size_t ldb, T beta, T* c, std::size_t ldc) {
    using matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using map = Eigen::Map<matrix, 0, Eigen::OuterStride<>>;
    using const_map = Eigen::Map<const matrix, 0, Eigen::OuterStride<>>;
    const auto i = [](std::size_t x) { return static_cast<Eigen::Index>(x); };
    const const_map left(a, i(transpose_a ? k : m), i(transpose_a ? m : k), Eigen::OuterStride<>(i(lda)));
    const const_map right(b, i(transpose_b ? n : k), i(transpose_b ? k : n), Eigen::OuterStride<>(i(ldb)));
    map out(c, i(m), i(n), Eigen::OuterStride<>(i(ldc)));
    if (beta == T(0)) out.setZero();
    if (transpose_a && transpose_b) out.noalias() += left.transpose() * right.transpose();
    else if (transpose_a) out.noalias() += left.transpose() * right;
    else if (transpose_b) out.noalias() += left * right.transpose();
    else out.noalias() += left * right;
    return true;
  }
};

}  // namespace gradus::cpu_kit
