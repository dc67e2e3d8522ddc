#pragma once
// Walks an output and its broadcast operands in runs of adjacent elements.

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../../cpu/parallel.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// The axes of a broadcast output, innermost first, and the operands' strides. Merges axes that broadcast alike.
template <index_t Operands, index_t Most>
struct broadcast_axes {
  index_t count = 0;
  index_t extent[Most] = {};
  index_t stride[Operands][Most] = {};  ///< 0 where an operand is broadcast; otherwise 1 along the innermost axis

  /// Adds an outer axis.
  constexpr void surround(index_t size, const std::array<index_t, Operands>& by) {
    bool as_one = count > 0;
    for (index_t k = 0; k < Operands; ++k) as_one = as_one && by[k] == stride[k][count - 1] * extent[count - 1];
    if (as_one) {
      extent[count - 1] *= size;
    } else {
      for (index_t k = 0; k < Operands; ++k) stride[k][count] = by[k];
      extent[count++] = size;
    }
  }

  /// The operands' offsets at a row of the innermost axis.
  GRADUS_NOINLINE std::array<index_t, Operands> begin_of(index_t row) const {
    std::array<index_t, Operands> begin{};
    for (index_t a = 1; a < count; row /= extent[a++])
      for (index_t k = 0; k < Operands; ++k) begin[k] += row % extent[a] * stride[k][a];
    return begin;
  }
};

/// Copies of the elements of a broadcast operand, expanded to a run of rows or a part of one.
template <class S>
class run_operand {
 public:
  static constexpr index_t most = 1024;  ///< elements per run

  // NOLINTNEXTLINE(modernize-use-equals-default): a defaulted one would write zeros
  run_operand() {}

  /// The operand for `rows` rows of `columns` elements from `begin` on.
  GRADUS_INLINE const S* lay_out(const S* begin, index_t rows, index_t columns, index_t along_row,
                                 index_t to_next_row) {
    if (along_row == 1 && (rows == 1 || to_next_row == columns)) return begin;
    if (begin != of_ || rows * columns > laid_out_) fill(begin, rows, columns, along_row, to_next_row);
    return element_;
  }

 private:
  GRADUS_NOINLINE void fill(const S* begin, index_t rows, index_t columns, index_t along_row, index_t to_next_row) {
    for (index_t r = 0; r < rows; ++r) {
      const S* const from = begin + r * to_next_row;
      S* const to = element_ + r * columns;
      if (along_row == 1) {
        std::copy_n(from, columns, to);
      } else {  // whole blocks: the next row overwrites the excess
        S copies[block];
        std::fill_n(copies, block, *from);
        for (index_t i = 0; i < columns; i += block) std::copy_n(copies, block, to + i);
      }
    }
    of_ = begin;
    laid_out_ = rows * columns;
  }

  static constexpr index_t block = 32 / sizeof(S);
  alignas(64) S element_[most + block];
  const S* of_ = nullptr;
  index_t laid_out_ = 0;
};

/// Calls f(first element of the output, elements, operands...) for runs of the output; operands are contiguous.
template <index_t Most, class... Ts, std::size_t... K, class F>
void for_runs(context<cpu>& ctx, const broadcast_axes<sizeof...(Ts), Most>& axes, std::index_sequence<K...>, const F& f,
              const Ts*... in) {
  constexpr index_t piece = 1024;
  const index_t columns = axes.extent[0], pieces = (columns + piece - 1) / piece;
  index_t rows = 1;
  for (index_t a = 1; a < axes.count; ++a) rows *= axes.extent[a];
  const bool all_go_along = ((axes.stride[K][0] == 1) && ...);
  parallel_elements(ctx, rows * pieces, (1 << 14) / std::min(columns, piece), [&](index_t first, index_t last) {
    std::tuple<run_operand<Ts>...> operands;
    index_t row = first / pieces, at = first % pieces * piece;  // position in the row
    const index_t last_row = last / pieces, last_at = std::min(columns, last % pieces * piece);
    while (row < last_row || at < last_at) {
      auto begin = axes.begin_of(row);
      index_t left = std::min(axes.count < 2 ? 1 : axes.extent[1] - row % axes.extent[1],
                              last_row + (last_at > 0 ? 1 : 0) - row);  // rows until an outer axis advances
      while (left > 0) {
        index_t together = 1, n = (row < last_row ? columns : last_at) - at;
        if (at == 0 && row < last_row && 2 * columns <= run_operand<char>::most) {
          together = std::min({left, last_row - row, run_operand<char>::most / columns});
          n = together * columns;
        } else if (!all_go_along) {
          n = std::min(n, run_operand<char>::most);
        }
        f(row * columns + at, n,
          std::get<K>(operands).lay_out(in + begin[K] + at * axes.stride[K][0], together, n / together,
                                        axes.stride[K][0], axes.stride[K][1])...);
        if (at += n; together > 1 || at == columns) {
          at = 0;
          row += together;
          left -= together;
          for (index_t k = 0; k < sizeof...(Ts); ++k) begin[k] += together * axes.stride[k][1];
        } else if (row == last_row && at == last_at) {
          return;
        }
      }
    }
  });
}

template <class Out, class... Ins>
using axes_between = broadcast_axes<sizeof...(Ins), std::max<index_t>(8, Out::rank)>;  // one type for all ranks up to 8

/// The axes of an output, over which operands broadcast, by their extents.
template <class Out, class... Ins>
constexpr axes_between<Out, Ins...> merged_axes(const Out& out, const Ins&... in) {
  constexpr index_t operands = sizeof...(Ins);
  axes_between<Out, Ins...> axes;
  std::array<index_t, operands> next;
  next.fill(1);
  for (index_t i = 0; i < Out::rank; ++i) {
    const std::array<index_t, operands> extents{gradus::detail::padded_extent(in, i)...};
    std::array<index_t, operands> by{};
    for (index_t k = 0; k < operands; ++k) {
      if (extents[k] != 1) by[k] = next[k];
      next[k] *= extents[k];
    }
    if (gradus::detail::padded_extent(out, i) != 1) axes.surround(gradus::detail::padded_extent(out, i), by);
  }
  if (axes.count == 0) axes.surround(1, next);  // one element
  return axes;
}
/// merged_axes(out, in...), computed by the compiler if no shape is bounded.
template <class Out, class... Ins>
GRADUS_INLINE constexpr axes_between<Out, Ins...> axes_of(const Out& out, const Ins&... in) {
  if constexpr (Out::bounded || (Ins::bounded || ...)) {
    return merged_axes(out, in...);
  } else {
    constexpr auto axes = merged_axes(Out{}, Ins{}...);
    return axes;
  }
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
