#pragma once
#include <algorithm>
#include <cstddef>

#include "gemm_packed.hpp"
#include "parallel.hpp"

namespace gradus::cpu_kit {

/// How a product's result is cut into tiles: by its size alone, so that the bits do not depend on the number of threads.
struct tile_grid {
  std::size_t rows = 1, columns = 1;  ///< tiles in each direction
  std::size_t height, width;          ///< of a tile

  // The longer side is halved until there are 4 tiles, and on to 16 while tiles stay longer than 2048: fewer would leave cores
  // idle, more would pack the shared operand too often. All but the last tile are a multiple of `columns_together` wide.
  tile_grid(std::size_t m, std::size_t n, std::size_t columns_together) : height(m), width(n) {
    while ((rows * columns < 4 && std::max(height, width) > 64) ||
           (rows * columns < 16 && std::max(height, width) > 2048)) {
      (height >= width ? rows : columns) *= 2;
      height = (m + rows - 1) / rows;
      width = (n + columns - 1) / columns;
    }
    if (columns > 1) width = (width + columns_together - 1) / columns_together * columns_together;
  }
};

/// C = op(A) op(B) + beta C (beta 0 or 1) on row-major matrices: op(A) is m x k, op(B) is k x n, lda/ldb/ldc are the row strides as
/// stored. With a bias (n values), C = op(A) op(B) + bias in every row, and beta is not looked at. Nothing is allocated.
template <class T, class Kernel = packed_gemm<T>>
void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const T* a, std::size_t lda,
          const T* b, std::size_t ldb, T beta, T* c, std::size_t ldc, const T* bias = nullptr) {
  const gemm_operand<T> left{a, lda, transpose_a};
  const gemm_operand<T> right{b, ldb, transpose_b};
  const tile_grid g(m, n, Kernel::columns);
  parallel_tasks(g.rows * g.columns, [&](std::size_t t) {
    const std::size_t i = t / g.columns * g.height;
    const std::size_t j = t % g.columns * g.width;
    if (i >= m || j >= n) return;
    Kernel::tile({left.at(i, 0), lda, transpose_a}, {right.at(0, j), ldb, transpose_b}, std::min(g.height, m - i),
                 std::min(g.width, n - j), k, beta, bias != nullptr ? bias + j : bias, c + i * ldc + j, ldc);
  });
}

}  // namespace gradus::cpu_kit
