#pragma once
// How a reduction walks memory: neighbouring axes that are treated alike are one axis, so that runs are as long as they
// can be.

#include <array>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

/// A reduction at run time; see merged_reduction, which makes one.
struct reduction_walk {
  const index_t* extent;  ///< of the merged axes, from the back
  index_t axes;
  bool inner_reduced;
  index_t inner, outputs, count, out_rows, steps;
  index_t out_stride, step_stride;  ///< from row to row of the same step, or of the same output row,
  index_t out_line, step_line;      ///< rows evenly spaced by that stride; all rows where their axes merge into one

  /// Where the row number `step` of output row `out_row` starts.
  constexpr index_t row(index_t out_row, index_t step) const {
    return (out_line == out_rows ? out_row * out_stride : nested(inner_reduced ? 1 : 2, out_row)) +
           (step_line == steps ? step * step_stride : nested(inner_reduced ? 2 : 1, step));
  }

 private:
  // `i` counts along every second axis from `axis` on.
  GRADUS_NOINLINE constexpr index_t nested(index_t axis, index_t i) const {
    index_t offset = 0, stride = 1;
    for (index_t a = 0; a < axes; stride *= extent[a++])
      if (a >= axis && (a - axis) % 2 == 0) {
        offset += i % extent[a] * stride;
        i /= extent[a];
      }
    return offset;
  }
};

/// A reduction from extents `big` to `result`, whose reduced axes have extent 1 (or are missing in front).
///
/// Memory is a sequence of rows, runs along the merged last axis. If that axis is reduced, each output takes `steps`
/// rows whole; if it is kept, each group of `inner` outputs takes `steps` rows column by column.
template <index_t Rank>
struct merged_reduction {
  std::array<index_t, Rank + 1> extent{};  ///< from the back, reduced and kept in turn
  index_t axes = 0;
  bool inner_reduced = false;
  index_t inner;  ///< length of a row
  index_t outputs;
  index_t count;  ///< elements that become one
  index_t out_rows, steps;

  template <class Big, class Small>
  constexpr merged_reduction(const Big& big, const Small& result) {
    bool reduced = false;
    for (index_t i = 0; i != Rank; ++i) {
      const index_t e = detail::padded_extent(big, i);
      if (e == 1) continue;
      const bool r = detail::padded_extent(result, i) == 1;
      if (axes == 0) inner_reduced = r;
      if (axes == 0 || r != reduced) extent[axes++] = e;
      else extent[axes - 1] *= e;
      reduced = r;
    }
    if (axes == 0) extent[axes++] = 1;
    inner = extent[0];
    outputs = result.size;
    count = big.size / outputs;
    out_rows = inner_reduced ? outputs : outputs / inner;
    steps = inner_reduced ? count / inner : count;
  }

  /// Where the row number `step` of output row `out_row` starts.
  constexpr index_t row(index_t out_row, index_t step) const {
    index_t offset = 0;
    index_t stride = extent[0];
    bool reduced = inner_reduced;
    for (index_t g = 1; g < axes; ++g) {
      reduced = !reduced;
      const index_t e = extent[g];
      index_t& from = reduced ? step : out_row;
      offset += from % e * stride;
      from /= e;
      stride *= e;
    }
    return offset;
  }

  /// This layout for kernels that serve all shapes; the result refers to `extent`.
  constexpr reduction_walk walk() const {
    const index_t kept = inner_reduced ? 1 : 2, reduced = inner_reduced ? 2 : 1;  // the first axes around a row
    return {extent.data(),
            axes,
            inner_reduced,
            inner,
            outputs,
            count,
            out_rows,
            steps,
            out_rows > 1 ? row(1, 0) : 0,
            steps > 1 ? row(0, 1) : inner,
            axes > kept + 2 ? extent[kept] : out_rows,
            axes > reduced + 2 ? extent[reduced] : steps};
  }
};

/// The reduction from shape Big to Small, computed by the compiler.
template <class Big, class Small>
struct reduction_layout {
 private:
  static constexpr merged_reduction<Big::rank> merged{Big{}, Small{}};

 public:
  static constexpr bool inner_reduced = merged.inner_reduced;
  static constexpr index_t inner = merged.inner, outputs = merged.outputs, count = merged.count;
  static constexpr index_t out_rows = merged.out_rows, steps = merged.steps;
  static GRADUS_HD constexpr index_t row(index_t out_row, index_t step) {
    constexpr auto axes = merged;
    return axes.row(out_row, step);
  }
  static constexpr reduction_walk walk() { return merged.walk(); }
};

}  // namespace gradus
