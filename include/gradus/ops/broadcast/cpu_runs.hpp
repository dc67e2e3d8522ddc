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

/// Calls f(first element of the output, elements, operands...) for runs of the output; operands are contiguous. Where a
/// run ends in the middle of a pack does not depend on the number of threads: a compiler may round an element of a
/// whole pack otherwise than one of a part, by a multiply-add.
template <index_t Most, class... Ts, std::size_t... K, class F>
void for_runs(context<cpu>& ctx, const broadcast_axes<sizeof...(Ts), Most>& axes, std::index_sequence<K...>, const F& f,
              const Ts*... in) {
  constexpr index_t piece = 1024, most = run_operand<char>::most;
  const index_t columns = axes.extent[0], rows_inside = axes.count < 2 ? 1 : axes.extent[1];
  index_t rows = rows_inside;
  for (index_t a = 2; a < axes.count; ++a) rows *= axes.extent[a];
  // Short rows of one axis are laid out together. A unit is such a group of rows, or a piece of a row.
  const index_t together = 2 * columns <= most ? std::min(rows_inside, most / columns) : 1;
  const index_t groups = (rows_inside + together - 1) / together, pieces = (columns + piece - 1) / piece;
  const bool all_go_along = ((axes.stride[K][0] == 1) && ...);
  const index_t units = rows / rows_inside * groups * pieces;
  parallel_elements(ctx, units, (1 << 14) / std::min(together * columns, piece), [&](index_t first, index_t last) {
    std::tuple<run_operand<Ts>...> operands;
    for (index_t unit = first; unit < last;) {
      const index_t line = unit / pieces, group = line % groups, at = unit % pieces * piece;
      const index_t row = line / groups * rows_inside + group * together;
      const index_t n_rows = std::min(together, rows_inside - group * together);
      // Where no operand is laid out, pieces of a row that follow one another are one run.
      const index_t n_pieces = all_go_along ? std::min(last - unit, pieces - unit % pieces) : 1;
      const index_t n = std::min(columns - at, n_pieces * piece);
      const auto begin = axes.begin_of(row);
      f(row * columns + at, n_rows * n,
        std::get<K>(operands).lay_out(in + begin[K] + at * axes.stride[K][0], n_rows, n, axes.stride[K][0],
                                      axes.stride[K][1])...);
      unit += n_pieces;
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
