#pragma once
// How the GPU's kernels walk a reduction: by constants of its shapes, or, if they are bounded, by the extents that are
// there, with the order of sums of the static program that has them.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "../../core/shape_algebra.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/sums.hpp"
#include "layout.hpp"

namespace gradus::cuda_kit {

/// What is known at compile time of the innermost merged axis of a reduction of bounded shapes.
template <class Big, class Small>
struct inner_axis {
  bool known = false;  ///< whether it is reduced
  bool reduced = false;
  index_t factor = 1;  ///< divides its extent

  constexpr inner_axis() {
    for (index_t i = 0; i != Big::rank; ++i) {
      const index_t e = gradus::detail::padded_in_type<Big>(i);
      const bool r = gradus::detail::padded_in_type<Small>(i) == 1;
      if (e == 1) continue;
      if (gradus::detail::is_bounded(e) ? !known || r != reduced : known && r != reduced) return;
      if (gradus::detail::is_bounded(e)) continue;
      known = true;
      reduced = r;
      factor *= e;
    }
  }
};

template <class Big, class Small>
inline constexpr inner_axis<Big, Small> known_inner_axis{};

/// The reduction of the largest tensors of these shapes.
template <class Big, class Small>
inline constexpr merged_reduction<Big::rank> largest_reduction{largest_extents<Big>(), largest_extents<Small>()};

/// The reduction between views: reduction_layout, or a value with the same members for bounded shapes.
template <class Big, class Small>
auto reduction_of(const Big& big, const Small& result) {
  using from = typename Big::shape;
  using to = typename Small::shape;
  if constexpr (from::bounded) return merged_reduction<from::rank>(big.extents(), result.extents());
  else return reduction_layout<from, to>{};
}

/// Calls f(inner_reduced, width) with constants: whether rows are reduced, and the elements of a run, Widest if rows
/// consist of whole runs, or if there is one row, whose end may be an incomplete run.
template <int Widest, class Big, class Small, class Reduction, class F>
void with_inner_axis(const Reduction& of, const F& f) {
  constexpr auto is_wide = [](const auto& r) {
    return r.inner % Widest == 0 || (r.inner_reduced && r.outputs == 1 && r.steps == 1);
  };
  constexpr std::integral_constant<int, Widest> wide{};
  constexpr std::integral_constant<int, 1> narrow{};
  if constexpr (!Big::bounded) {
    f(std::bool_constant<Reduction::inner_reduced>{}, std::integral_constant < int,
      is_wide(Reduction{}) ? Widest : 1 > {});
  } else {
    const auto by_width = [&](auto inner_reduced) {
      if constexpr (known_inner_axis<Big, Small>.factor % Widest == 0) f(inner_reduced, wide);
      else if (is_wide(of)) f(inner_reduced, wide);
      else f(inner_reduced, narrow);
    };
    if constexpr (known_inner_axis<Big, Small>.known)
      by_width(std::bool_constant<known_inner_axis<Big, Small>.reduced>{});
    else if (of.inner_reduced) by_width(std::true_type{});
    else by_width(std::false_type{});
  }
}

/// Where the rows of a reduction start, for kernels.
template <class Count, class Big, class Small, class Reduction>
auto rows_of_reduction([[maybe_unused]] const Reduction& of) {
  if constexpr (!Big::bounded) {
    return reduced_rows<Reduction, Count>();
  } else {
    constexpr int axes = static_cast<int>(std::max<index_t>(1, largest_reduction<Big, Small>.axes / 2));
    bounded_rows<Count, axes> rows;
    int kept = 0, reduced = 0;
    index_t stride = of.inner;
    for (index_t axis = 1; axis < of.axes; stride *= of.extent[axis++]) {
      const bool is_reduced = of.inner_reduced == (axis % 2 == 0);
      nested_axes<Count, axes>& to = is_reduced ? rows.reduced : rows.kept;
      int& at = is_reduced ? reduced : kept;
      to.extent[at] = divisor<Count>(static_cast<Count>(of.extent[axis]));
      to.stride[at++] = static_cast<Count>(stride);
    }
    return rows;
  }
}

/// The layout of the blocks that sum columns.
template <int Width, class Big, class Reduction>
auto columns_of_reduction([[maybe_unused]] const Reduction& of) {
  constexpr auto lanes = [](index_t inner) {
    return static_cast<unsigned>(std::min<index_t>(32, std::bit_ceil(inner / Width)));
  };
  if constexpr (Big::bounded) return bounded_column_layout<Width>{lanes(of.inner), block_threads / lanes(of.inner)};
  else return column_layout<Width, static_cast<int>(lanes(Reduction::inner))>{};
}

}  // namespace gradus::cuda_kit
