#pragma once
// The matrix product on the CPU: divides the result into tiles, one task each.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "../core/config.hpp"
#include "gemm_packed.hpp"
#include "parallel.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Divides a result into rows x columns tiles of whole strips and panels. The result's bits do not depend on it.
struct tile_grid {
  index_t m, n, strip, panel;     ///< extents of the result, and the units of a tile
  index_t rows = 1, columns = 1;  ///< tiles in each direction

  index_t strips() const { return (m + strip - 1) / strip; }
  index_t panels() const { return (n + panel - 1) / panel; }
  index_t tiles() const { return rows * columns; }
  /// The first row or column of tile i of `parts`.
  static index_t begin(index_t units, index_t unit, index_t parts, index_t i, index_t end) {
    return std::min(end, units * i / parts * unit);
  }
  index_t top(index_t i) const { return begin(strips(), strip, rows, i, m); }
  index_t left(index_t i) const { return begin(panels(), panel, columns, i, n); }
  index_t tallest() const { return std::min(m, (strips() + rows - 1) / rows * strip); }
  index_t widest() const { return std::min(n, (panels() + columns - 1) / columns * panel); }

  /// The grid that `threads` threads finish first, judged by the busiest thread. A tile costs its strips times its
  /// panels, plus packing each of its strips of A and panels of B once.
  static tile_grid for_threads(index_t threads, index_t m, index_t n, index_t strip, index_t panel) {
    tile_grid chosen{m, n, strip, panel};
    tile_grid grid = chosen;
    const index_t all_strips = grid.strips(), all_panels = grid.panels();
    double best = -1;
    for (grid.rows = 1; grid.rows <= std::min(all_strips, 8 * threads); grid.rows += 1 + grid.rows / 4) {
      for (index_t rounds = 1; rounds <= 8; rounds *= 2) {
        grid.columns = std::min(all_panels, std::max<index_t>(1, rounds * threads / grid.rows));
        const index_t high = (all_strips + grid.rows - 1) / grid.rows;
        const index_t wide = (all_panels + grid.columns - 1) / grid.columns;
        const double tile = static_cast<double>(high * wide) + packing * static_cast<double>(high + wide);
        const index_t passes = (grid.tiles() + threads - 1) / threads;
        const double time = (static_cast<double>(passes) + delay) * tile;
        if (best < 0 || time < best) best = time, chosen = grid;
      }
    }
    return chosen;
  }

 private:
  static constexpr double packing = 1;  // cost of packing a strip or a panel, in strip-panel products
  static constexpr double delay = 0.1;  // tiles by which a thread is late: favours small tiles
};

/// C = op(A) op(B) (+ C, with `accumulate`) on row-major matrices: op(A) is m x k, op(B) is k x n; lda, ldb and ldc are
/// row strides as stored. With a bias (n elements), C = op(A) op(B) + bias in every row, and `accumulate` is ignored.
/// Operands may have any floating-point types: sums are in Acc and rounded to C's type once, at the end.
///
/// The bits of an element depend on its row of A, its column of B, n and k; not on threads, tiles, or the other rows.
template <class Acc, class Wanted = void, class SA, class SB, class SC, class SBias = SC>
void gemm(context<cpu>& ctx, bool transpose_a, bool transpose_b, index_t m, index_t n, index_t k, const SA* a,
          index_t lda, const SB* b, index_t ldb, bool accumulate, SC* c, index_t ldc, const SBias* bias = nullptr) {
  using Kernel = std::conditional_t<std::is_void_v<Wanted>, gemm_kernel<Acc, SA, SB>, Wanted>;
  if (m == 0 || n == 0) return;
  const gemm_operand<SA> left{a, lda, transpose_a};
  const gemm_operand<SB> right{b, ldb, transpose_b};
  using few_rows = typename Kernel::few_rows;
  if (few_rows::supports(transpose_a, transpose_b, m, n, k, accumulate)) {
    tile_grid g{m, n, m, Kernel::tile_columns};
    const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
    g.columns =
        std::min(g.panels(), threads * std::clamp<index_t>(n / (512 * threads), 1, 4));  // long runs in B's rows
    parallel_tasks(ctx, g.columns, few_rows::bytes(), [&](index_t t, void* memory) {
      const index_t j = g.left(t);
      few_rows::multiply(Kernel::kc_of(n, k), left, gemm_operand<SB>{right.at(0, j), ldb, transpose_b}, m,
                         g.left(t + 1) - j, k, bias != nullptr ? bias + j : bias, c + j, ldc, memory);
    });
    return;
  }
  Kernel::prepare(ctx.stream());
  const auto g = tile_grid::for_threads(static_cast<index_t>(thread_count(ctx.stream())), m, n, Kernel::tile_rows,
                                        Kernel::tile_columns);
  const auto sizes = Kernel::template block_sizes_for<SC, SBias>(n, k, g.tallest(), g.widest());
  parallel_tasks(ctx, g.tiles(), sizes.bytes(), [&](index_t t, void* memory) {
    const index_t r = t / g.columns, s = t % g.columns;
    const index_t i = g.top(r), j = g.left(s);
    Kernel::tile(sizes, gemm_operand<SA>{left.at(i, 0), lda, transpose_a},
                 gemm_operand<SB>{right.at(0, j), ldb, transpose_b}, g.top(r + 1) - i, g.left(s + 1) - j, k, accumulate,
                 bias != nullptr ? bias + j : bias, c + i * ldc + j, ldc, memory);
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
