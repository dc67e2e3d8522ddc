#pragma once
// How a reduction walks memory: neighbouring axes that are treated alike are one axis, so that runs are as long as they
// can be.

#include <array>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

/// A reduction at run time; see reduction_layout, which makes one.
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

/// A reduction from shape Big to Small, whose reduced axes have extent 1 (or are missing in front).
///
/// Memory is a sequence of rows, runs along the merged last axis. If that axis is reduced, each output takes `steps`
/// rows whole; if it is kept, each group of `inner` outputs takes `steps` rows column by column.
template <class Big, class Small>
struct reduction_layout {
 private:
  struct axis_list {
    std::array<index_t, Big::rank + 1> extent{};  // from the back, reduced and kept in turn
    index_t count = 0;
    bool inner_reduced = false;
  };
  static constexpr axis_list merge() {
    axis_list l;
    bool reduced = false;
    for (index_t i = 0; i != Big::rank; ++i) {
      const index_t e = detail::padded_extent<Big>(i);
      if (e == 1) continue;
      const bool r = detail::padded_extent<Small>(i) == 1;
      if (l.count == 0) l.inner_reduced = r;
      if (l.count == 0 || r != reduced) l.extent[l.count++] = e;
      else l.extent[l.count - 1] *= e;
      reduced = r;
    }
    if (l.count == 0) l.extent[l.count++] = 1;
    return l;
  }
  static constexpr axis_list merged = merge();

 public:
  static constexpr bool inner_reduced = merged.inner_reduced;
  static constexpr index_t inner = merged.extent[0];  ///< length of a row
  static constexpr index_t outputs = Small::size;
  static constexpr index_t count = Big::size / outputs;  ///< elements that become one
  static constexpr index_t out_rows = inner_reduced ? outputs : outputs / inner;
  static constexpr index_t steps = inner_reduced ? count / inner : count;

  /// Where the row number `step` of output row `out_row` starts in Big.
  static GRADUS_HD constexpr index_t row(index_t out_row, index_t step) {
    constexpr axis_list axes = merged;
    index_t offset = 0;
    index_t stride = axes.extent[0];
    bool reduced = axes.inner_reduced;
    for (index_t g = 1; g < axes.count; ++g) {
      reduced = !reduced;
      const index_t e = axes.extent[g];
      index_t& from = reduced ? step : out_row;
      offset += from % e * stride;
      from /= e;
      stride *= e;
    }
    return offset;
  }

  /// The same for kernels that serve all shapes.
  static constexpr reduction_walk walk() {
    constexpr index_t kept = inner_reduced ? 1 : 2, reduced = inner_reduced ? 2 : 1;  // the first axes around a row
    return {merged.extent.data(),
            merged.count,
            inner_reduced,
            inner,
            outputs,
            count,
            out_rows,
            steps,
            out_rows > 1 ? row(1, 0) : 0,
            steps > 1 ? row(0, 1) : inner,
            merged.count > kept + 2 ? merged.extent[kept] : out_rows,
            merged.count > reduced + 2 ? merged.extent[reduced] : steps};
  }
};

}  // namespace gradus
