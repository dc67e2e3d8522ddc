#pragma once
// Pooling: the largest element or the mean of windows of images [B, C, H, W] and of sequences [B, C, L].

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../reduce/reduce.hpp"
#include "../reshape/reshape.hpp"
#include "windows.hpp"

namespace gradus {

/// The windows of all planes (images of one channel), for kernels;
struct pooled_planes {
  index_t planes;
  pool_windows rows, columns;
};
/// a GPU's know that there are no more than `Most` entries, nor outputs.
template <index_t Most>
struct pooled_planes_upto : pooled_planes {};

namespace detail {

/// The rules of `pool` along one axis.
constexpr pool_rule rule_along(const pool& p, index_t per_axis::*axis) {
  return {p.size.*axis, p.stride.*axis == 0 ? p.size.*axis : p.stride.*axis, p.padding.*axis};
}
constexpr pool_rule rule_of_outputs(index_t outputs) { return {.outputs = outputs}; }

/// The windows of images of shape S along their rows' and columns' axes.
template <class S, pool_rule Rows>
inline constexpr pool_windows windows_of_rows = pool_windows::of(Rows, S::extent(-2));
template <class S, pool_rule Columns>
inline constexpr pool_windows windows_of_columns = pool_windows::of(Columns, S::extent(-1));

/// [B, C, H, W] with the outputs of a pooling as H and W.
template <class X, pool_rule Rows, pool_rule Columns>
using pooled = with_shape<
    X, with_extent<with_extent<typename X::shape, X::rank - 2, windows_of_rows<typename X::shape, Rows>.outputs>,
                   X::rank - 1, windows_of_columns<typename X::shape, Columns>.outputs>>;
template <class X, pool_rule Rows, pool_rule Columns>
GRADUS_OF_BUILD constexpr auto pooled_extents(const X& x) {
  using shape = typename pooled<X, Rows, Columns>::shape;
  return extents_from<shape>([&] {
    auto all = shape::extents;
    for (index_t i = 0; i + 2 < X::rank; ++i) all[i] = x.extents().extents[i];
    return all;
  });
}
template <class X, pool_rule Rows, pool_rule Columns>
GRADUS_OF_BUILD constexpr auto planes_of(const extents_of<typename X::shape>& x) {
  using s = typename X::shape;
  return pooled_planes_upto<std::max(X::size, pooled<X, Rows, Columns>::size)>{
      {x.size / (s::extent(-2) * s::extent(-1)), windows_of_rows<s, Rows>, windows_of_columns<s, Columns>}};
}
/// Elements that all windows of an image have, per output; for costs.
template <class S, pool_rule Rows, pool_rule Columns>
inline constexpr index_t window_size = windows_of_rows<S, Rows>.size * windows_of_columns<S, Columns>.size;

/// The smallest type for an element's number in its window.
template <index_t Size>
using place_in_window =
    std::conditional_t<Size <= 256, std::uint8_t, std::conditional_t<Size <= 65536, std::uint16_t, std::int32_t>>;

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// The largest element of each window; NaN if it has one. Saves its place in the window (the first, if several are
/// equal), in one byte for windows of up to 256 elements; it gets the gradient.
/// Kernels of all windows: forward(ctx, planes, y, places, x), where places may be null; backward(ctx, planes, dx,
/// accumulate, dy, places).
template <pool_rule Rows = pool_rule{}, pool_rule Columns = pool_rule{}>
struct max_pool {
  static constexpr std::string_view name = "max_pool";
  static constexpr save_rule saves = save_nothing();  // but the places, as statistics

  template <class X>
  using output_of = gradus::detail::pooled<X, Rows, Columns>;
  template <class X>
  using places = tensor<gradus::detail::place_in_window<gradus::detail::window_size<typename X::shape, Rows, Columns>>,
                        typename output_of<X>::shape, typename X::device>;
  template <class X>
  static constexpr flop_counts flops() {
    return {gradus::detail::window_size<typename X::shape, Rows, Columns> * output_of<X>::size, output_of<X>::size};
  }

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    auto& ctx = how.owner();
    const auto extents = gradus::detail::pooled_extents<X, Rows, Columns>(x);
    output_of<X> y(ctx, extents);
    const auto run = [&](auto* at) {
      kernel<max_pool<>, typename X::device>::forward(ctx, gradus::detail::planes_of<X, Rows, Columns>(x.extents()),
                                                      y.data(), at, x.data());
    };
    return with_optional_statistics<places<X>>(how, y, run, extents);
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    kernel<max_pool<>, typename X::device>::backward(
        dy.owner(), gradus::detail::planes_of<X, Rows, Columns>(dx.extents()), to.tensor.data(), to.accumulate,
        dy.data(), statistics(saved).data());
  }
};

/// The mean of each window, in which padding counts as zeros. Saves nothing: its elements share the gradient. A mean of
/// whole planes is a reduction, with the kernels of gradus::mean.
/// Kernels of all windows: forward(ctx, planes, y, x), backward(ctx, planes, dx, accumulate, dy).
template <pool_rule Rows = pool_rule{}, pool_rule Columns = pool_rule{}>
struct avg_pool {
  static constexpr std::string_view name = "avg_pool";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  using output_of = gradus::detail::pooled<X, Rows, Columns>;
  template <class X>
  static constexpr flop_counts flops() {
    constexpr index_t forward = gradus::detail::window_size<typename X::shape, Rows, Columns> * output_of<X>::size;
    return {forward, forward};
  }

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    output_of<X> y(how.owner(), gradus::detail::pooled_extents<X, Rows, Columns>(x));
    if constexpr (of_planes) mean_of_planes<X>::forward(how.owner(), y.view(), x.view());
    else
      kernel<avg_pool<>, typename X::device>::forward(
          how.owner(), gradus::detail::planes_of<X, Rows, Columns>(x.extents()), y.data(), x.data());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    if constexpr (of_planes)
      mean_of_planes<X>::backward(dy.owner(), to.view(), to.accumulate, std::as_const(dy).view());
    else
      kernel<avg_pool<>, typename X::device>::backward(dy.owner(),
                                                       gradus::detail::planes_of<X, Rows, Columns>(dx.extents()),
                                                       to.tensor.data(), to.accumulate, std::as_const(dy).data());
  }

 private:
  static constexpr bool of_planes = Rows.outputs == 1 && Columns.outputs == 1;
  template <class X>
  using mean_of_planes = kernel<sum<axes<-2, -1>, true, true>, typename X::device>;
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

// Named in compiler messages. An extent that is upto<N> fits no window.
template <index_t Extent, index_t Size, index_t Padding>
inline constexpr bool window_fits =
    Size >= 1 && 2 * Padding <= Size && !is_bounded(Extent) && Extent + 2 * Padding >= Size;
template <index_t Extent, index_t Outputs>
inline constexpr bool outputs_fit = Outputs >= 1 && !is_bounded(Extent) && !is_bounded(Outputs);

template <index_t Extent, pool_rule Rule>
constexpr bool check_windows() {
  if constexpr (Rule.outputs != 0) {
    GRADUS_REQUIRE(
        "adaptive pooling(x): there must be an output, and the extents of pooled axes are numbers, not upto<N>",
        outputs_fit<Extent, Rule.outputs>)
    return true;
  } else {
    GRADUS_REQUIRE(
        "pooling(x): a window must fit the padded axis, whose extent is a number, not upto<N>; padding is at "
        "most half of its size",
        window_fits<Extent, Rule.size, Rule.padding>)
    return true;
  }
  return false;
}
template <template <pool_rule, pool_rule> class Op, pool_rule Rows, pool_rule Columns, class X>
GRADUS_OF_BUILD constexpr auto pooled_2d(X&& x) {
  using s = shape_of<X>;
  GRADUS_REQUIRE("pooling(x): images have the axes [B, C, H, W]", s::rank == 4)
  GRADUS_REQUIRE("pooling(x): x must have floating-point elements", is_floating<value_of_t<X>>)
  if constexpr (check_windows<s::extent_in_type(2), Rows>() && check_windows<s::extent_in_type(3), Columns>())
    return apply(Op<Rows, Columns>{}, std::forward<X>(x));
}
// A sequence is an image of one row.
template <template <pool_rule, pool_rule> class Op, pool_rule Rule, class X>
GRADUS_OF_BUILD constexpr auto pooled_1d(X&& x) {
  using s = shape_of<X>;
  GRADUS_REQUIRE("pooling(x): sequences have the axes [B, C, L]", s::rank == 3)
  {
    constexpr index_t batch = s::extent_in_type(0), channels = s::extent_in_type(1), length = s::extent_in_type(2);
    constexpr pool_rule row = Rule.outputs == 0 ? pool_rule{} : rule_of_outputs(1);
    if constexpr (check_windows<length, Rule>())
      return reshape<batch, channels, pool_windows::of(Rule, length).outputs>(
          pooled_2d<Op, row, Rule>(reshape<batch, channels, 1, length>(std::forward<X>(x))));
  }
}

}  // namespace detail

/// The largest element of each window of images: x [B, C, H, W] -> [B, C, H', W'], where H' is (H + 2 padding - size) /
/// stride + 1, rounded down. NaN if a window has one; the first of equal elements, row by row, gets the gradient.
template <pool Windows, operand X>
GRADUS_OF_BUILD constexpr auto max_pool2d(X&& x) {
  return detail::pooled_2d<op::max_pool, detail::rule_along(Windows, &per_axis::y),
                           detail::rule_along(Windows, &per_axis::x)>(std::forward<X>(x));
}
/// The mean of each window, of the same shape. Padding counts as zeros.
template <pool Windows, operand X>
GRADUS_OF_BUILD constexpr auto avg_pool2d(X&& x) {
  return detail::pooled_2d<op::avg_pool, detail::rule_along(Windows, &per_axis::y),
                           detail::rule_along(Windows, &per_axis::x)>(std::forward<X>(x));
}
/// The largest elements of H x W windows that divide each image evenly: x [B, C, h, w] -> [B, C, H, W].
template <index_t H, index_t W, operand X>
GRADUS_OF_BUILD constexpr auto adaptive_max_pool2d(X&& x) {
  return detail::pooled_2d<op::max_pool, detail::rule_of_outputs(H), detail::rule_of_outputs(W)>(std::forward<X>(x));
}
/// The means of the same windows.
template <index_t H, index_t W, operand X>
GRADUS_OF_BUILD constexpr auto adaptive_avg_pool2d(X&& x) {
  return detail::pooled_2d<op::avg_pool, detail::rule_of_outputs(H), detail::rule_of_outputs(W)>(std::forward<X>(x));
}

/// max_pool2d of sequences: x [B, C, L] -> [B, C, L'].
template <pool Windows, operand X>
GRADUS_OF_BUILD constexpr auto max_pool1d(X&& x) {
  return detail::pooled_1d<op::max_pool, detail::rule_along(Windows, &per_axis::x)>(std::forward<X>(x));
}
/// avg_pool2d of sequences.
template <pool Windows, operand X>
GRADUS_OF_BUILD constexpr auto avg_pool1d(X&& x) {
  return detail::pooled_1d<op::avg_pool, detail::rule_along(Windows, &per_axis::x)>(std::forward<X>(x));
}
/// adaptive_max_pool2d of sequences: x [B, C, l] -> [B, C, L].
template <index_t L, operand X>
GRADUS_OF_BUILD constexpr auto adaptive_max_pool1d(X&& x) {
  return detail::pooled_1d<op::max_pool, detail::rule_of_outputs(L)>(std::forward<X>(x));
}
/// adaptive_avg_pool2d of sequences.
template <index_t L, operand X>
GRADUS_OF_BUILD constexpr auto adaptive_avg_pool1d(X&& x) {
  return detail::pooled_1d<op::avg_pool, detail::rule_of_outputs(L)>(std::forward<X>(x));
}

}  // namespace gradus
