#pragma once
// interpolate<H, W>(x): images of another size, composed of index_select and elementwise operations.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../autodiff/casting.hpp"
#include "../../core/config.hpp"
#include "../cumsum/numbers.hpp"
#include "../elementwise/arithmetic.hpp"
#include "../elementwise/functions.hpp"
#include "../elementwise/selection.hpp"
#include "../gather/gather.hpp"
#include "../reshape/reshape.hpp"

namespace gradus {

/// How interpolate() computes a pixel: `nearest` takes one of x; `bilinear` takes the weighted mean of four, by the
/// centres of pixels (PyTorch's align_corners=False).
enum class interpolation { nearest, bilinear };

namespace detail {

template <index_t Rank>
inline constexpr bool is_a_batch_of_images = Rank == 4;
template <class S>
inline constexpr bool has_fixed_pixels = S::rank != 4 || !(is_bounded(S::in_type[2]) || is_bounded(S::in_type[3]));
template <class T, interpolation Mode>
inline constexpr bool has_means = is_floating<T> || Mode == interpolation::nearest;

// x with Count entries along an axis. Of means the elements have x's compute type.
template <index_t Axis, index_t Count, interpolation Mode, class X>
GRADUS_OF_BUILD auto interpolate_along(const X& x) {
  constexpr index_t from = shape_of<X>::extents[Axis];
  auto& ctx = plain(x).owner();
  if constexpr (Count == from) {
    return x;
  } else if constexpr (Mode == interpolation::nearest) {
    return index_select<Axis>(x, numbers<Count>(ctx) * from / Count);
  } else {
    using C = compute_type<value_of_t<X>>;
    constexpr double scale = static_cast<double>(from) / static_cast<double>(Count);
    const auto centre = maximum(cast<double>(numbers<Count>(ctx)) * scale + (0.5 * scale - 0.5), 0.0);
    const auto low = cast<std::int32_t>(floor(centre)), high = minimum(low + 1, from - 1);
    const auto share = cast<C>(centre - cast<double>(low));
    const auto first = cast<C>(index_select<Axis>(x, low)), second = cast<C>(index_select<Axis>(x, high));
    if constexpr (Axis + 1 == shape_of<X>::rank) return first + (second - first) * share;
    else return first + (second - first) * reshape<Count, 1>(share);
  }
}

}  // namespace detail

/// Images x [B, C, h, w] in the size [B, C, H, W]; B and C may be bounded. Pixel i of `nearest` is pixel floor(i h / H)
/// of x, exactly. The means of `bilinear` are computed in x's compute type and rounded once. In memory of its indices,
/// a few vectors of H and W elements.
template <index_t H, index_t W, interpolation Mode = interpolation::nearest, operand X>
GRADUS_OF_BUILD auto interpolate(const X& x) {
  GRADUS_REQUIRE("interpolate<H, W>(x): x must be images [B, C, h, w]", detail::is_a_batch_of_images<shape_of<X>::rank>)
  GRADUS_REQUIRE("interpolate<H, W>(x): only B and C of x may be bounded", detail::has_fixed_pixels<shape_of<X>>)
  GRADUS_REQUIRE("interpolate<H, W, interpolation::bilinear>(x): x must have floating-point elements",
                 detail::has_means<value_of_t<X>, Mode>)
  GRADUS_REQUIRE("interpolate<H, W>(x): H and W must be at least 1", H >= 1 && W >= 1)
  return cast<value_of_t<X>>(detail::interpolate_along<3, W, Mode>(detail::interpolate_along<2, H, Mode>(x)));
}

}  // namespace gradus
