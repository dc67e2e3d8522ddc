#pragma once
// slice, concat and split: operations, shape rules and gradients, all by moving blocks.

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

/// A block of `rows` runs of `run` elements, with an offset and a row stride on either side.
struct block_move {
  index_t rows, run;
  index_t to_offset, to_stride;
  index_t from_offset, from_stride;
};

namespace detail {
// The sum of extents in types, which is bounded if one of them is.
constexpr index_t added_in_type(auto... in_type) {
  return (bound_of(in_type) + ...) + ((is_bounded(in_type) || ...) ? bounded_mark : 0);
}
[[noreturn]] GRADUS_NOINLINE inline void fail_slice(index_t axis, index_t first, index_t count, index_t extent) {
  throw error("slice<" + std::to_string(axis) + ", " + std::to_string(count) + ">(x, first): first is " +
              std::to_string(static_cast<std::ptrdiff_t>(first)) + "; it must be in 0 .. " +
              std::to_string(extent < count ? 0 : extent - count) + ", since the axis has " + std::to_string(extent) +
              " entries");
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Copies (or adds) a block: kernel forward(ctx, T* to, const T* from, block_move, bool accumulate).
struct move_block {};

/// Copies (or adds) `count` entries along an axis, from entry `from_first` of `from` on, to `to` from `to_first` on.
template <index_t Axis, class To, class From>
constexpr void move_entries(context<typename To::device>& ctx, To& to, index_t to_first, const From& from,
                            index_t from_first, index_t count, bool accumulate = false) {
  const index_t to_extent = to.extents().extents[Axis], from_extent = from.extents().extents[Axis];
  const index_t inner = from.extents().stride(Axis), rows = from.extents().size / (from_extent * inner);
  if (count > 0)
    kernel<move_block, typename To::device>::forward(
        ctx, to.data(), from.data(),
        block_move{rows, count * inner, to_first * inner, to_extent * inner, from_first * inner, from_extent * inner},
        accumulate);
}

/// Entries along an axis, from `first` on. Gradient: the same entries; 0 elsewhere.
/// @tparam Count how many; upto<N>: `count`, known at run time
template <index_t Axis, index_t Count>
struct slice {
  index_t first, count;

  static constexpr std::string_view name = "slice";
  static constexpr save_rule saves = save_nothing();
  static constexpr unsigned selected_operands = 0b1;

  template <class X>
  using output_of = with_shape<X, with_extent<typename X::shape, Axis, Count>>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    const index_t extent = x.extents().extents[Axis];
    if (count > extent || first > extent - count) gradus::detail::fail_slice(Axis, first, count, extent);
    output_of<X> y(how.owner(), replaced_extents<Axis, Count>(x.extents(), count));
    move_entries<Axis>(how.owner(), y, 0, x, first, count);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    dx.template write_as<typename Y::value_type>(dy.owner(), [&](auto to) {
      if (!to.accumulate) device_access<typename X::device>::zero(dy.owner(), to.tensor.data(), to.tensor.bytes);
      move_entries<Axis>(dy.owner(), to.tensor, first, dy, 0, count, to.accumulate);
    });
  }
};

/// Concatenates operands along an axis. Gradient: each operand's entries.
template <index_t Axis>
struct concat {
  static constexpr std::string_view name = "concat";
  static constexpr save_rule saves = save_nothing();

  template <class X, class... Xs>
  using output_of =
      with_shape<X, with_extent<typename X::shape, Axis,
                                gradus::detail::added_in_type(X::shape::in_type[Axis], Xs::shape::in_type[Axis]...)>>;

  template <class Call, class X, class... Xs>
  constexpr auto forward(Call how, const X& x, const Xs&... xs) const {
    auto& ctx = how.owner();
    for (index_t i = 0; i < X::rank; ++i)
      if (i != Axis) (check_extents_meet(name, i, x.extents().extents[i], xs.extents().extents[i]), ...);
    using out = output_of<X, Xs...>;
    out y(ctx, replaced_extents<Axis, out::shape::in_type[Axis]>(
                   x.extents(), (x.extents().extents[Axis] + ... + xs.extents().extents[Axis])));
    index_t at = 0;
    const auto put = [&](const auto& part) {
      const index_t count = part.extents().extents[Axis];
      move_entries<Axis>(ctx, y, at, part, 0, count);
      at += count;
    };
    put(x);
    (put(xs), ...);
    return y;
  }
  template <class Saved, class Y, class... Xs>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<Xs>&... sinks) const {
    index_t at = 0;
    const auto take = [&]<class X>(const gradient_sink<X>& dx) {
      const index_t count = dx.extents().extents[Axis];
      if (dx) {
        dx.template write_as<typename Y::value_type>(
            dy.owner(), [&](auto to) { move_entries<Axis>(dy.owner(), to.tensor, 0, dy, at, count, to.accumulate); });
      }
      at += count;
    };
    (take(sinks), ...);
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t Axis, index_t Rank>
inline constexpr bool axis_exists = Axis < Rank;
template <index_t SumOfSizes, index_t Extent>
inline constexpr bool elements_equal_extent = SumOfSizes == Extent;
template <index_t End, index_t Extent>
inline constexpr bool ends_within = End <= Extent;
template <index_t Axis, class A, class B>
constexpr bool fits_beside() {
  if constexpr (A::rank != B::rank) return false;
  else return std::is_same_v<A, with_extent<B, Axis, A::in_type[Axis]>>;
}
template <class A, class B, index_t Axis>
inline constexpr bool shapes_fit_beside = fits_beside<Axis, A, B>();

template <index_t Count>
inline constexpr bool count_is_known = !is_bounded(Count);
template <std::ptrdiff_t Axis, index_t Count, class X>
GRADUS_OF_BUILD constexpr auto slice_at(X&& x, index_t first, index_t count) {
  using s = shape_of<X>;
  constexpr index_t axis = axis_from_front<s::rank>(Axis), most = bound_of(Count);
  GRADUS_REQUIRE("slice<axis, count>(x, first): x has no such axis", axis_exists<axis, s::rank>)
  GRADUS_REQUIRE("slice<axis, count>(x, first): count must be at least 1 and at most the extent of the axis",
                 ends_within<most, s::extents[axis]> && most >= 1)
  {
    if (count == 0 || count > most || (count < most && !is_bounded(Count))) fail_extent(axis, count, most);
    return apply(op::slice<axis, Count>{first, count}, std::forward<X>(x));
  }
}
}  // namespace detail

/// Entries First .. First+Count-1 of x along Axis: [.., n, ..] -> [.., Count, ..].
template <std::ptrdiff_t Axis, std::ptrdiff_t First, std::ptrdiff_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x) {
  using s = shape_of<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank>(Axis), count = static_cast<index_t>(Count);
  GRADUS_REQUIRE("slice<axis, first, count>(x): x has no such axis", detail::axis_exists<axis, s::rank>)
  GRADUS_REQUIRE("slice<axis, first, count>(x): first and count must be positive", First >= 0 && Count >= 1)
  GRADUS_REQUIRE("slice<axis, first, count>(x): first + count must be within the axis of x",
                 detail::ends_within<First + count, s::extents[axis]>)
  return apply(op::slice<axis, count>{First, count}, std::forward<X>(x));
}

/// Count entries of x along Axis from the run-time index `first` on: [.., n, ..] -> [.., Count, ..]. Throws error if
/// they are not all within the axis. A step_graph repeats the `first` of the captured step.
template <std::ptrdiff_t Axis, std::ptrdiff_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x, index_t first) {
  GRADUS_REQUIRE("slice<axis, count>(x, first): count is bounded; slice(x, first, count)",
                 detail::count_is_known<static_cast<index_t>(Count)>)
  return detail::slice_at<Axis, static_cast<index_t>(Count)>(std::forward<X>(x), first, static_cast<index_t>(Count));
}
/// `count` entries of x along Axis from the run-time index `first` on: `slice<0, upto<64>>(x, first, count)`. If Count
/// is a number, `count` must be it. Throws error if the entries are not all within the axis, or `count` is 0 or above
/// its bound.
template <std::ptrdiff_t Axis, index_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x, index_t first, index_t count) {
  return detail::slice_at<Axis, Count>(std::forward<X>(x), first, count);
}

/// Concatenates the operands along Axis: [.., n1, ..], [.., n2, ..], ... -> [.., n1 + n2 + ..., ..].
template <std::ptrdiff_t Axis, operand X, operand... Xs>
GRADUS_OF_BUILD constexpr auto concat(X&& x, Xs&&... xs) {
  using s = shape_of<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank>(Axis);
  GRADUS_REQUIRE("concat<axis>(a, b, ...): a has no such axis", detail::axis_exists<axis, s::rank>)
  GRADUS_REQUIRE("concat<axis>(a, b, ...): the shapes must be equal on every other axis",
                 (detail::shapes_fit_beside<s, shape_of<Xs>, axis> && ...))
  GRADUS_REQUIRE("concat<axis>(a, b, ...): the element types must be equal",
                 (std::is_same_v<value_of_t<X>, value_of_t<Xs>> && ...))
  return apply(op::concat<axis>{}, std::forward<X>(x), std::forward<Xs>(xs)...);
}

namespace detail {
template <std::ptrdiff_t Axis, std::ptrdiff_t First, std::ptrdiff_t Count, std::ptrdiff_t... Rest, class X>
GRADUS_OF_BUILD constexpr auto split_from(const X& x) {
  auto part = std::make_tuple(slice<Axis, First, Count>(x));
  if constexpr (sizeof...(Rest) == 0) return part;
  else return std::tuple_cat(std::move(part), split_from<Axis, First + Count, Rest...>(x));
}
}  // namespace detail

/// Splits x along Axis into parts of the given sizes, which add up to its extent; returns a std::tuple.
template <std::ptrdiff_t Axis, std::ptrdiff_t... Sizes, operand X>
GRADUS_OF_BUILD constexpr auto split(X&& x) {
  using s = shape_of<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank>(Axis);
  GRADUS_REQUIRE("split<axis, sizes...>(x): x has no such axis", detail::axis_exists<axis, s::rank>)
  GRADUS_REQUIRE("split<axis, sizes...>(x): sizes must be at least 1", ((Sizes >= 1) && ...))
  GRADUS_REQUIRE("split<axis, sizes...>(x): the sizes must add up to the axis of x",
                 detail::elements_equal_extent<(static_cast<index_t>(Sizes) + ... + index_t{0}), s::extents[axis]>)
  return detail::split_from<Axis, 0, Sizes...>(x);
}

}  // namespace gradus
