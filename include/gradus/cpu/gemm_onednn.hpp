#pragma once
// The one header that includes oneDNN.
#include <dnnl.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "../core/error.hpp"
#include "parallel.hpp"

namespace gradus::cpu_kit {

/// C = A B + beta C on row-major float matrices, by oneDNN's sgemm; with a bias, C = A B + bias in every row. It was faster than oneDNN's matmul primitive on most model
/// shapes measured (docs/performance.md), needs no primitive to be made, and is the same function in versions 2 and 3.
///
/// Left to itself, oneDNN may split the sum over k among threads, and the bits then depend on their number. So we cut C into
/// a fixed grid of tiles and let one thread compute each.
struct onednn_gemm {
  static void run(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const float* a,
                  std::size_t lda, const float* b, std::size_t ldb, float beta, float* c, std::size_t ldc, const float* bias) {
    const grid g = tiles(m, n);
    std::atomic<bool> failed = false;
    // Inside a parallel loop of several tasks oneDNN computes alone; a lone tile gets an idle companion for that reason.
    parallel_tasks(std::max<std::size_t>(g.rows * g.columns, 2), [&](std::size_t t) {
      const std::size_t i = t / g.columns * g.height;
      const std::size_t j = t % g.columns * g.width;
      if (i >= m || j >= n) return;
      const std::size_t height = std::min(g.height, m - i);
      const std::size_t width = std::min(g.width, n - j);
      float* tile = c + i * ldc + j;
      if (bias != nullptr)
        for (std::size_t r = 0; r < height; ++r) std::memcpy(tile + r * ldc, bias + j, width * sizeof(float));
      // With A transposed, oneDNN is faster on short sums (up to 15 %, docs/performance.md).
      const std::size_t run = transpose_a ? 256 : k;
      for (std::size_t p = 0; p < k; p += run) {
        const bool add = bias != nullptr || p > 0;
        if (!product(transpose_a, transpose_b, height, width, std::min(run, k - p), a + (transpose_a ? p * lda + i : i * lda + p), lda,
                     b + (transpose_b ? j * ldb + p : p * ldb + j), ldb, add ? 1.0f : beta, tile, ldc))
          failed = true;
      }
    });
    if (failed) throw error("matmul: oneDNN refused the matrix product; its memory may be exhausted");
  }

 private:
  static bool product(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, const float* a,
                      std::size_t lda, const float* b, std::size_t ldb, float beta, float* c, std::size_t ldc) {
    const auto dim = [](std::size_t x) { return static_cast<dnnl_dim_t>(x); };
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', dim(m), dim(n), dim(k), 1.0f, a, dim(lda), b, dim(ldb), beta,
                      c, dim(ldc)) == dnnl_success;
  }

  struct grid {
    std::size_t rows, columns;   ///< tiles in each direction
    std::size_t height, width;   ///< of a tile
  };
  // The longer side is halved until there are 4 tiles, and on to 16 while tiles stay longer than 1024: fewer would leave cores
  // idle, more would pack the shared operand too often.
  static grid tiles(std::size_t m, std::size_t n) {
    grid g{1, 1, m, n};
    while ((g.rows * g.columns < 4 && std::max(g.height, g.width) > 64) ||
           (g.rows * g.columns < 16 && std::max(g.height, g.width) > 2048)) {
      if (g.height >= g.width) {
        g.rows *= 2;
        g.height = (m + g.rows - 1) / g.rows;
      } else {
        g.columns *= 2;
        g.width = (n + g.columns - 1) / g.columns;
      }
    }
    // Whole registers, so that only the last tile meets an edge.
    if (g.rows > 1) g.height = (g.height + 15) / 16 * 16;
    if (g.columns > 1) g.width = (g.width + 15) / 16 * 16;
    return g;
  }
};

}  // namespace gradus::cpu_kit
