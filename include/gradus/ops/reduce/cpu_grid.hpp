#pragma once
// How the CPU divides a reduction into tasks and chunks, by the shape only: results are the same for any thread count.

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "layout.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Divides a reduction into tasks with separate results (one output, or a block of columns), and, if there are few
/// tasks, each task into chunks whose results are merged in order. A task counts units: pieces of rows.
struct reduction_grid : reduction_walk {
  static constexpr index_t piece = 1024;  // of a reduced row
  static constexpr index_t block = 128;   // columns
  static constexpr index_t most = 96;     // most chunks of all tasks
  index_t pieces, blocks, tasks, units, work, chunk, chunks;

  constexpr explicit reduction_grid(const reduction_walk& walk)
      : reduction_walk(walk),
        pieces((inner + piece - 1) / piece),
        blocks((inner + block - 1) / block),
        tasks(inner_reduced ? out_rows : out_rows * blocks),
        units(inner_reduced ? steps * pieces : steps),
        work(outputs * count / tasks) {
    const index_t wanted = tasks >= most || work < (index_t{1} << 16) ? 1 : std::min(units, most / tasks);
    chunk = (units + wanted - 1) / wanted;
    chunks = (units + chunk - 1) / chunk;
  }
};
/// The grid of a reduction from shape Big to Small.
template <class Big, class Small>
inline constexpr reduction_grid grid_of{reduction_layout<Big, Small>::walk()};
/// The grid of a reduction of bounded shapes, with the axes that it refers to.
template <index_t Rank>
struct bounded_reduction : merged_reduction<Rank>, reduction_grid {
  template <class Big, class Small>
  bounded_reduction(const Big& big, const Small& result)
      : merged_reduction<Rank>(big, result), reduction_grid(merged_reduction<Rank>::walk()) {}
  bounded_reduction(const bounded_reduction&) = delete;
  bounded_reduction& operator=(const bounded_reduction&) = delete;
};
/// The grid of the reduction of view `big`, whose elements it adds up or compares, to view `result`.
template <class Big, class Small>
GRADUS_INLINE decltype(auto) reduction_of([[maybe_unused]] const Big& big, [[maybe_unused]] const Small& result) {
  using from = typename Big::shape;
  using to = typename Small::shape;
  if constexpr (from::bounded) return bounded_reduction<from::rank>(big.extents(), result.extents());
  else return (grid_of<from, to>);
}

/// Iterates over the rows of x that are reduced to one output row, from number `step` on.
template <class T>
struct reduced_rows {
  const reduction_walk& walk;
  const T* x;
  index_t out_row, step;
  const T* at = x + walk.row(out_row, step);
  /// Evenly spaced rows from here on, including this one.
  index_t left = walk.step_line - (step < walk.step_line ? step : step % walk.step_line);

  /// Advances by at most `left` rows.
  GRADUS_INLINE void skip(index_t rows) {
    step += rows;
    at += rows * walk.step_stride;
    left -= rows;
    if (left > 0 || step == walk.steps) return;
    at = x + walk.row(out_row, step);
    left = walk.step_line;
  }
  /// Calls f(row, its number) for the next `count` rows.
  template <class F>
  GRADUS_INLINE void for_next(index_t count, const F& f) const {
    for (reduced_rows rows = *this; count > 0;) {
      const index_t together = std::min(count, rows.left), stride = walk.step_stride;
      const T* row = rows.at;
      for (index_t i = 0; i < together; ++i, row += stride) f(row, rows.step + i);
      count -= together;
      rows.skip(together);
    }
  }
};

/// Calls reduce(state, task, first unit, last unit) for chunks of each task, merges them, calls finish(state, task).
template <class State, class Reduce, class Finish>
void for_tasks(context<cpu>& ctx, const reduction_grid& grid, const Reduce& reduce, const Finish& finish) {
  if (grid.chunks == 1) {
    parallel_elements(
        ctx, grid.tasks, std::max<index_t>(1, (index_t{1} << 14) / grid.work),
        [&](index_t first, index_t last) __attribute__((flatten)) {  // a call per row would slow short rows
          for (index_t t = first; t < last; ++t) {
            State state;
            reduce(state, t, 0, grid.units);
            finish(state, t);
          }
        });
  } else {
    std::array<State, reduction_grid::most> parts;
    parallel_tasks(
        ctx, grid.tasks * grid.chunks, [&](index_t i) __attribute__((flatten)) {
          const index_t first = i % grid.chunks * grid.chunk;
          reduce(parts[i], i / grid.chunks, first, std::min(grid.units, first + grid.chunk));
        });
    parallel_tasks(ctx, grid.tasks, [&](index_t t) {
      State* const of_task = parts.data() + t * grid.chunks;
      for (index_t c = 1; c < grid.chunks; ++c) of_task->merge(of_task[c]);
      finish(*of_task, t);
    });
  }
}

/// Reduces whole rows: take(state, output, run, elements, first index) for every run, then finish(output, state).
template <class State, class T, class Take, class Finish>
void reduce_rows(context<cpu>& ctx, const reduction_grid& grid, const T* x, const Take& take, const Finish& finish) {
  const auto reduce = [&](State& state, index_t output, index_t first, index_t last) {
    const index_t step = grid.pieces == 1 ? first : first / grid.pieces;
    index_t begin = (first - step * grid.pieces) * grid.piece;
    state = State{};
    for (reduced_rows<T> rows{grid, x, output, step};; begin = 0, rows.skip(1)) {
      const index_t n = std::min(grid.inner - begin, (last - first) * grid.piece);
      for (index_t i = 0; i < n; i += grid.piece, ++first)
        take(state, output, rows.at + begin + i, std::min(grid.piece, n - i), rows.step * grid.inner + begin + i);
      if (first == last) break;
    }
  };
  for_tasks<State>(ctx, grid, reduce, [&](const State& state, index_t output) { finish(output, state); });
}

/// Calls f(0), f(1) ... f(N - 1) without a loop, so that g++ keeps arrays indexed by them in registers.
template <index_t N, class F>
GRADUS_INLINE void unrolled(const F& f) {
  [&]<index_t... Is>(std::integer_sequence<index_t, Is...>) __attribute__((always_inline)) { (f(Is), ...); }
  (std::make_integer_sequence<index_t, N>());
}

/// Calls f(number of packs, first column, lanes) over the columns 0 .. width-1 in strips of 8, 4, 2 and 1 packs.
template <class C, class F>
GRADUS_INLINE void for_strips(index_t width, const F& f) {
  index_t column = 0;
  const auto strips = [&]<index_t P>(std::integral_constant<index_t, P> packs) __attribute__((always_inline)) {
    for (; column + P * lanes<C> <= width; column += P * lanes<C>) f(packs, column, all_lanes{});
  };
  strips(std::integral_constant<index_t, 8>{});
  strips(std::integral_constant<index_t, 4>{});
  strips(std::integral_constant<index_t, 2>{});
  strips(std::integral_constant<index_t, 1>{});
  if (column < width) f(std::integral_constant<index_t, 1>{}, column, first_lanes{width - column});
}

/// Reduces columns: take(state, rows, count, column, width) for a few rows, then finish(first output, state, width).
template <class State, class T, class Take, class Finish>
void reduce_columns(context<cpu>& ctx, const reduction_grid& grid, const T* x, const Take& take, const Finish& finish) {
  constexpr index_t rows_at_once = 32;
  const auto block_of = [&](index_t task, const auto& f) {
    const index_t out_row = task / grid.blocks, column = task % grid.blocks * grid.block;
    f(out_row, column, std::min(grid.block, grid.inner - column));
  };
  const auto reduce = [&](State& state, index_t task, index_t first, index_t last) {
    block_of(task, [&](index_t out_row, index_t column, index_t width) {
      state.begin(x + grid.row(out_row, first) + column, first, width);
      for (index_t r = first; r < last; r += rows_at_once)
        take(state, reduced_rows<T>{grid, x, out_row, r}, std::min(rows_at_once, last - r), column, width,
             out_row * grid.inner + column);
    });
  };
  for_tasks<State>(ctx, grid, reduce, [&](const State& state, index_t task) {
    block_of(task, [&](index_t out_row, index_t column, index_t width) {
      finish(out_row * grid.inner + column, state, width);
    });
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
