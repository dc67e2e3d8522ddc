#pragma once
// The matrix product on the CPU: divides the result into tiles, one task each.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "../core/config.hpp"
#include "gemm_packed.hpp"
#include "parallel.hpp"
#include "rows.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Divides a result into rows x columns tiles of whole strips and panels, and its sums into slices of whole blocks of
/// terms. The result's bits depend on neither.
struct tile_grid {
  index_t m, n, strip, panel;     ///< extents of the result, and the units of a tile
  index_t rows = 1, columns = 1;  ///< tiles in each direction
  index_t slices = 1;             ///< parts of the sums, a task each

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
  /// panels, plus packing each of its strips of A and panels of B once. Sums of k terms may be sliced at multiples of
  /// kc, which costs memory for the blocks of all slices but the first, and a second loop.
  static tile_grid for_threads(index_t threads, index_t m, index_t n, index_t strip, index_t panel, index_t k = 1,
                               index_t kc = 1) {
    tile_grid chosen{m, n, strip, panel};
    tile_grid grid = chosen;
    const index_t strips = grid.strips(), panels = grid.panels(), blocks = std::max<index_t>(1, (k + kc - 1) / kc);
    const double ideal = static_cast<double>(strips * panels) / static_cast<double>(threads);
    double best = -1;
    for (grid.slices = 1; grid.slices <= std::min(blocks, threads); grid.slices += 1 + grid.slices / 4) {
      const index_t deepest = (blocks + grid.slices - 1) / grid.slices, stored = blocks - blocks / grid.slices;
      const double depth = static_cast<double>(deepest) / static_cast<double>(blocks);
      const double adding =
          grid.slices == 1 ? 0 : (second_loop + storing * static_cast<double>(stored) * ideal) / static_cast<double>(k);
      if (grid.slices > 1 && (best < sliced_from * ideal || stored * m * n > most_stored * threads)) break;
      for (index_t rounds = 1; rounds <= 8; rounds *= 2) {
        const index_t tasks = std::max<index_t>(1, rounds * threads / grid.slices);
        for (index_t across = 1; across <= std::min(tasks, panels); across = tasks / (tasks / across) + 1) {
          const index_t high = (strips + tasks / across - 1) / (tasks / across);
          const index_t wide = (panels + across - 1) / across;
          grid.rows = (strips + high - 1) / high;
          grid.columns = (panels + wide - 1) / wide;
          const double tile = static_cast<double>(high * wide) + packing * static_cast<double>(high + wide);
          const index_t passes = (grid.tiles() * grid.slices + threads - 1) / threads;
          const double time = (static_cast<double>(passes) + delay) * tile * depth + adding;
          if (best < 0 || time < best) best = time, chosen = grid;
        }
      }
    }
    return chosen;
  }

 private:
  // Costs, in products of a strip and a panel.
  static constexpr double packing = 1;                      // of packing a strip or a panel
  static constexpr double delay = 0.1;                      // in tiles, by which a thread is late: favours small tiles
  static constexpr double sliced_from = 4.0 / 3;            // the time, over the least, from which slices are tried
  static constexpr index_t most_stored = index_t{1} << 17;  // elements of stored blocks per thread: they stay in caches
  // Costs in terms of such a product.
  static constexpr double storing = 32;        // of storing a strip times a panel, and adding it later
  static constexpr double second_loop = 4096;  // of a loop's begin and end
};

/// The grids of a stream's products: a step asks for the same ones again, and a search takes microseconds.
class kept_grids {
 public:
  explicit kept_grids(const stream&) {}
  /// tile_grid::for_threads().
  template <class... Index>
  const tile_grid& for_threads(Index... asked) {
    const question q{asked...};
    index_t place = 0;
    for (const index_t x : q) place = place * 31 + x;
    entry& e = entries_[place % entries_.size()];
    if (e.asked != q) e = {q, tile_grid::for_threads(asked...)};
    return e.grid;
  }

 private:
  using question = std::array<index_t, 7>;
  struct entry {
    question asked{};
    tile_grid grid{};
  };
  std::array<entry, 128> entries_;
};

/// C += each of `count` m x n matrices, in order.
template <class T>
void add_blocks(context<cpu>& ctx, index_t m, index_t n, index_t count, const T* blocks, T* c, index_t ldc) {
  constexpr index_t run = 256;
  const index_t runs = (n + run - 1) / run;
  parallel_elements(ctx, m * runs, 32, [=](index_t begin, index_t end) {
    for (index_t t = begin; t < end; ++t) {
      const index_t i = t / runs, j = t % runs * run;
      for_packs<T>(std::min(run, n - j), [&](index_t s, auto which) {
        T* const to = c + i * ldc + j + s;
        pack<T> sum = load<T>(to, which);
        for (index_t b = 0; b < count; ++b) sum = sum + load<T>(blocks + (b * m + i) * n + j + s, which);
        store(sum, to, which);
      });
    }
  });
}

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
  auto& threads = ctx.stream().get<workers>();
  // What tasks share is not for a product within a task, which has one thread.
  constexpr bool sliced = Kernel::sums_apart && std::is_same_v<SC, Acc>;  // C holds the sums
  const index_t kc = Kernel::kc_of(n, k), blocks = std::max<index_t>(1, (k + kc - 1) / kc);
  constexpr index_t strip = Kernel::tile_rows, panel = Kernel::tile_columns;
  const tile_grid g = threads.busy()
                          ? tile_grid::for_threads(1, m, n, strip, panel)
                          : ctx.stream().get<kept_grids>().for_threads(static_cast<index_t>(threads.count()), m, n,
                                                                       strip, panel, sliced ? k : kc, kc);
  const auto sizes = Kernel::template block_sizes_for<SC, SBias>(n, k, g.tallest(), g.widest());
  const index_t own = blocks / g.slices;  // blocks of the first slice, whose sums are in C
  Acc* const sums = g.slices == 1 ? nullptr : static_cast<Acc*>(threads.shared((blocks - own) * m * n * sizeof(Acc)));
  parallel_tasks(ctx, g.slices * g.tiles(), sizes.bytes(), [&](index_t t, void* memory) {
    const index_t slice = t / g.tiles(), r = t % g.tiles() / g.columns, s = t % g.columns;
    const index_t i = g.top(r), j = g.left(s), high = g.top(r + 1) - i, wide = g.left(s + 1) - j;
    const auto tile = [&](index_t from, index_t end, bool add, const SBias* shift, auto* to, index_t stride) {
      Kernel::tile(sizes, gemm_operand<SA>{left.at(i, from), lda, transpose_a},
                   gemm_operand<SB>{right.at(from, j), ldb, transpose_b}, high, wide, end - from, add, shift,
                   to + i * stride + j, stride, memory);
    };
    if (slice == 0) return tile(0, g.slices == 1 ? k : own * kc, accumulate, bias != nullptr ? bias + j : bias, c, ldc);
    if constexpr (sliced)
      for (index_t p = blocks * slice / g.slices; p < blocks * (slice + 1) / g.slices; ++p)
        tile(p * kc, std::min(k, (p + 1) * kc), false, nullptr, sums + (p - own) * m * n, n);
  });
  if constexpr (sliced)
    if (g.slices > 1) add_blocks(ctx, m, n, blocks - own, sums, c, ldc);
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
