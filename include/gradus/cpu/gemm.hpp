#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <type_traits>

#include "../core/error.hpp"
#include "gemm_eigen.hpp"
#include "parallel.hpp"
#if defined(GRADUS_WITH_ONEDNN)
#include "gemm_onednn.hpp"
#endif

namespace gradus::cpu_kit {

#if defined(GRADUS_WITH_ONEDNN)
using float_gemm = onednn_gemm;
#else
using float_gemm = eigen_gemm;
#endif

/// How a product's result is cut into tiles: by its size alone, so that the bits do not depend on the number of threads.
struct tile_grid {
  std::size_t rows = 1, columns = 1;  ///< tiles in each direction
  std::size_t height, width;          ///< of a tile

  // The longer side is halved until there are 4 tiles, and on to 16 while tiles stay longer than 2048: fewer would leave cores
  // idle, more would pack the shared operand too often.
  tile_grid(std::size_t m, std::size_t n) : height(m), width(n) {
    while ((rows * columns < 4 && std::max(height, width) > 64) ||
           (rows * columns < 16 && std::max(height, width) > 2048)) {
      (height >= width ? rows : columns) *= 2;
      height = (m + rows - 1) / rows;
      width = (n + columns - 1) / columns;
    }
    // Whole registers, so that only the last tile meets an edge.
    if (rows > 1) height = (height + 15) / 16 * 16;
    if (columns > 1) width = (width + 15) / 16 * 16;
  }
};

/// C = op(A) op(B) + beta C (beta 0 or 1) on row-major matrices: op(A) is m x k, op(B) is k x n, lda/ldb/ldc are the row strides as
/// stored. With a bias (n values), C = op(A) op(B) + bias in every row, and beta is not looked at.
///
/// Left to themselves, the libraries may split the sum over k by the number of threads. Here one thread computes a tile alone.
/// `Backend` names the library, so that programs built with different ones cannot be confused at link time.
template <class T, class Backend = std::conditional_t<std::is_same_v<T, float>, float_gemm, eigen_gemm>>
void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const T* a, std::size_t lda,
          const T* b, std::size_t ldb, T beta, T* c, std::size_t ldc, const T* bias = nullptr) {
  const tile_grid g(m, n);
  std::atomic<bool> failed = false;
  // Inside a parallel loop of several tasks the libraries compute alone; a lone tile gets an idle companion for that reason.
  parallel_tasks(std::max<std::size_t>(g.rows * g.columns, 2), [&](std::size_t t) {
    const std::size_t i = t / g.columns * g.height;
    const std::size_t j = t % g.columns * g.width;
    if (i >= m || j >= n) return;
    const std::size_t height = std::min(g.height, m - i);
    const std::size_t width = std::min(g.width, n - j);
    T* tile = c + i * ldc + j;
    if (bias != nullptr)
      for (std::size_t r = 0; r < height; ++r) std::copy(bias + j, bias + j + width, tile + r * ldc);
    if (!Backend::tile(transpose_a, transpose_b, height, width, k, a + (transpose_a ? i : i * lda), lda,
                       b + (transpose_b ? j * ldb : j), ldb, bias != nullptr ? T(1) : beta, tile, ldc))
      failed = true;
  });
  if (failed) throw error("matmul: the matrix library refused the product; memory may be exhausted");
}

}  // namespace gradus::cpu_kit
