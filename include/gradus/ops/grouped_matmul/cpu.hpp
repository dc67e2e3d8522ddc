#pragma once
// The CPU kernels of grouped_matmul: the tiles of all groups' products are the tasks of one loop.

#include <algorithm>
#include <cstddef>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/gemm.hpp"
#include "../../cpu/parallel.hpp"
#include "grouped_matmul.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Throws error unless offsets ascend and end within the rows.
template <class Id>
void check_offsets(const Id* offsets, index_t groups, index_t rows) {
  bool good = offsets[0] >= 0 && static_cast<index_t>(offsets[groups]) <= rows;
  for (index_t g = 0; g < groups; ++g) good = good && offsets[g] <= offsets[g + 1];
  if (!good) throw error("grouped_matmul(x, w, offsets): offsets must ascend, from 0 or more to at most the rows of x");
}

/// c (+)= a op(b[g]) for the rows of each group g, where c has n columns and a has k; rows outside are 0. Elements have
/// the bits of gemm() on their group: they do not depend on the division into tiles.
template <class Acc, class SA, class SB, class SC, class Id>
void multiply_groups(context<cpu>& ctx, bool transpose_b, index_t groups, index_t rows, index_t n, index_t k,
                     const Id* offsets, const SA* a, const SB* b, bool accumulate, SC* c) {
  using Kernel = gemm_kernel<Acc, SA, SB>;
  using few_rows = typename Kernel::few_rows;
  check_offsets(offsets, groups, rows);
  const auto first = [=](index_t g) { return static_cast<index_t>(offsets[g]); };
  Kernel::prepare(ctx.stream());
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  auto grid = tile_grid::for_threads(threads, rows, n, Kernel::tile_rows, Kernel::tile_columns);
  // The groups' sizes differ: tiles of fewer rows end together. Eight strips are worth packing b for.
  constexpr index_t least = 8 * Kernel::tile_rows;
  const index_t most = std::max(rows / (8 * threads) / Kernel::tile_rows * Kernel::tile_rows, least);
  const index_t height = std::min(grid.tallest(), most);
  const auto sizes = Kernel::template block_sizes_for<SC, SC>(n, k, height, grid.widest());
  index_t tiles = 0;
  for (index_t g = 0; g < groups; ++g) tiles += (first(g + 1) - first(g) + height - 1) / height;
  const std::size_t bytes = std::max(sizes.bytes(), few_rows::bytes());
  parallel_tasks(ctx, tiles * grid.columns, bytes, [=](index_t task, void* memory) {
    index_t tile = task / grid.columns, g = 0;
    for (;; ++g) {
      const index_t own = (first(g + 1) - first(g) + height - 1) / height;
      if (tile < own) break;
      tile -= own;
    }
    const index_t top = first(g) + tile * height, m = std::min(height, first(g + 1) - top);
    const index_t left = grid.left(task % grid.columns), across = grid.left(task % grid.columns + 1) - left;
    const gemm_operand<SA> of_a{a + top * k, k, false};
    const gemm_operand<SB> whole_b{b + g * n * k, transpose_b ? k : n, transpose_b};
    const gemm_operand<SB> of_b{whole_b.at(0, left), whole_b.stride, transpose_b};
    SC* const to = c + top * n + left;
    constexpr const SC* no_bias = nullptr;
    if (few_rows::supports(false, transpose_b, m, across, k, accumulate))
      few_rows::multiply(Kernel::kc_of(n, k), of_a, of_b, m, across, k, no_bias, to, n, memory);
    else Kernel::tile(sizes, of_a, of_b, m, across, k, accumulate, no_bias, to, n, memory);
  });
  if (accumulate) return;
  const auto clear = [&](index_t from, index_t end) { std::fill(c + from * n, c + end * n, SC(0)); };
  clear(0, first(0));
  clear(first(groups), rows);
}

/// c[g] (+)= a^T b of the rows of each group g, where a has m columns and b has n; 0 for an empty group.
template <class Acc, class SA, class SB, class SC, class Id>
void multiply_within_groups(context<cpu>& ctx, index_t groups, index_t m, index_t n, const Id* offsets, const SA* a,
                            const SB* b, bool accumulate, SC* c) {
  using Kernel = gemm_kernel<Acc, SA, SB>;
  const auto rows_of_group = [=](index_t g) { return static_cast<index_t>(offsets[g + 1] - offsets[g]); };
  Kernel::prepare(ctx.stream());
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  const auto grid = tile_grid::for_threads(threads, m, n, Kernel::tile_rows, Kernel::tile_columns);
  const auto sizes_for = [=](index_t k) {
    return Kernel::template block_sizes_for<SC, SC>(n, k, grid.tallest(), grid.widest());
  };
  std::size_t bytes = 0;
  for (index_t g = 0; g < groups; ++g) bytes = std::max(bytes, sizes_for(rows_of_group(g)).bytes());
  parallel_tasks(ctx, groups * grid.tiles(), bytes, [=](index_t task, void* memory) {
    const index_t g = task / grid.tiles(), tile = task % grid.tiles(), k = rows_of_group(g);
    const index_t top = grid.top(tile / grid.columns), left = grid.left(tile % grid.columns);
    const index_t high = grid.top(tile / grid.columns + 1) - top, across = grid.left(tile % grid.columns + 1) - left;
    SC* const to = c + (g * m + top) * n + left;
    if (k == 0) {
      for (index_t i = 0; i < high && !accumulate; ++i) std::fill_n(to + i * n, across, SC(0));
      return;
    }
    const auto first = static_cast<index_t>(offsets[g]);
    Kernel::tile(sizes_for(k), gemm_operand<SA>{a + first * m + top, m, true},
                 gemm_operand<SB>{b + first * n + left, n, false}, high, across, k, accumulate,
                 static_cast<const SC*>(nullptr), to, n, memory);
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::grouped_matmul, cpu> {
  template <class Acc, class TY, class TX, class TW, class Id>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, TY* y, const TX* x, const TW* w, const Id* offsets,
                      group_sizes of) {
    cpu_kit::multiply_groups<Acc>(ctx, false, of.groups, of.rows, of.out, of.in, offsets, x, w, false, y);
  }
  template <class Acc, class TDX, class TY, class TW, class Id>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, TDX* dx, bool accumulate, const TY* dy,
                       const TW* w, const Id* offsets, group_sizes of) {
    cpu_kit::multiply_groups<Acc>(ctx, true, of.groups, of.rows, of.in, of.out, offsets, dy, w, accumulate, dx);
  }
  template <class Acc, class TDW, class TY, class TX, class Id>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, TDW* dw, bool accumulate, const TY* dy,
                       const TX* x, const Id* offsets, group_sizes of) {
    cpu_kit::multiply_within_groups<Acc>(ctx, of.groups, of.in, of.out, offsets, x, dy, accumulate, dw);
  }
};

}  // namespace gradus
