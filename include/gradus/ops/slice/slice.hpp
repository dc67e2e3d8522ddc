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

  template <class X>
  using output_of = with_shape<X, with_extent<typename X::shape, Axis, Count>>;
  template <class X>
  static constexpr cost forward_cost() {
    return {0, output_of<X>::bytes, output_of<X>::bytes};
  }
  template <class X>
  static constexpr cost backward_cost() {
    return {0, output_of<X>::bytes, X::bytes};
  }

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
  template <class... Xs>
  static constexpr cost forward_cost() {
    return {0, (Xs::bytes + ...), (Xs::bytes + ...)};
  }
  template <class... Xs>
  static constexpr cost backward_cost() {
    return {0, (Xs::bytes + ...), (Xs::bytes + ...)};
  }

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

template <index_t Axis, index_t First, index_t Count, index_t... Rest, class X>
GRADUS_OF_BUILD constexpr auto split_from(const X& x);

template <index_t Count>
inline constexpr bool count_is_known = !is_bounded(Count);
template <index_t Axis, index_t Count, class X>
GRADUS_OF_BUILD constexpr auto slice_at(X&& x, index_t first, index_t count) {
  using s = shape_of<X>;
  static_assert(axis_exists<Axis, s::rank>, "slice<axis, count>(x, first): x has no such axis");
  if constexpr (axis_exists<Axis, s::rank>) {
    constexpr index_t most = bound_of(Count);
    static_assert(ends_within<most, s::extents[Axis]> && most >= 1,
                  "slice<axis, count>(x, first): count must be at least 1 and at most the extent of the axis");
    if constexpr (most <= s::extents[Axis] && most >= 1) {
      if (count == 0 || count > most || (count < most && !is_bounded(Count))) fail_extent(Axis, count, most);
      return apply(op::slice<Axis, Count>{first, count}, std::forward<X>(x));
    }
  }
}
}  // namespace detail

/// Entries First .. First+Count-1 of x along Axis: [.., n, ..] -> [.., Count, ..].
template <index_t Axis, index_t First, index_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x) {
  using s = shape_of<X>;
  static_assert(detail::axis_exists<Axis, s::rank>, "slice<axis, first, count>(x): x has no such axis");
  if constexpr (detail::axis_exists<Axis, s::rank>) {
    static_assert(detail::ends_within<First + Count, s::extents[Axis]> && Count >= 1,
                  "slice<axis, first, count>(x): first + count must be within the axis of x");
    if constexpr (First + Count <= s::extents[Axis] && Count >= 1)
      return apply(op::slice<Axis, Count>{First, Count}, std::forward<X>(x));
  }
}

/// Count entries of x along Axis from the run-time index `first` on: [.., n, ..] -> [.., Count, ..]. Throws error if
/// they are not all within the axis. A step_graph repeats the `first` of the captured step.
template <std::ptrdiff_t Axis, std::ptrdiff_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x, index_t first) {
  constexpr auto axis = static_cast<index_t>(Axis), count = static_cast<index_t>(Count);
  static_assert(detail::count_is_known<count>,
                "slice<axis, count>(x, first): count is bounded; slice(x, first, count)");
  return detail::slice_at<axis, count>(std::forward<X>(x), first, count);
}
/// `count` entries of x along Axis from the run-time index `first` on: `slice<0, upto<64>>(x, first, count)`. If Count
/// is a number, `count` must be it. Throws error if the entries are not all within the axis, or `count` is 0 or above
/// its bound.
template <index_t Axis, index_t Count, operand X>
GRADUS_OF_BUILD constexpr auto slice(X&& x, index_t first, index_t count) {
  return detail::slice_at<Axis, Count>(std::forward<X>(x), first, count);
}

/// Concatenates the operands along Axis: [.., n1, ..], [.., n2, ..], ... -> [.., n1 + n2 + ..., ..].
template <index_t Axis, operand X, operand... Xs>
GRADUS_OF_BUILD constexpr auto concat(X&& x, Xs&&... xs) {
  using s = shape_of<X>;
  static_assert(detail::axis_exists<Axis, s::rank>, "concat<axis>(a, b, ...): a has no such axis");
  if constexpr (detail::axis_exists<Axis, s::rank>) {
    static_assert((detail::shapes_fit_beside<s, shape_of<Xs>, Axis> && ...),
                  "concat<axis>(a, b, ...): the shapes must be equal on every other axis");
    static_assert((std::is_same_v<value_of_t<X>, value_of_t<Xs>> && ...),
                  "concat<axis>(a, b, ...): the element types must be equal");
    if constexpr ((detail::shapes_fit_beside<s, shape_of<Xs>, Axis> && ...) &&
                  (std::is_same_v<value_of_t<X>, value_of_t<Xs>> && ...))
      return apply(op::concat<Axis>{}, std::forward<X>(x), std::forward<Xs>(xs)...);
  }
}

/// Splits x along Axis into parts of the given sizes, which add up to its extent; returns a std::tuple.
template <index_t Axis, index_t... Sizes, operand X>
GRADUS_OF_BUILD constexpr auto split(X&& x) {
  using s = shape_of<X>;
  static_assert(detail::axis_exists<Axis, s::rank>, "split<axis, sizes...>(x): x has no such axis");
  if constexpr (detail::axis_exists<Axis, s::rank>) {
    constexpr bool whole = detail::elements_equal_extent<(Sizes + ... + index_t{0}), s::extents[Axis]>;
    static_assert(detail::elements_equal_extent<(Sizes + ... + index_t{0}), s::extents[Axis]>,
                  "split<axis, sizes...>(x): the sizes must add up to the axis of x");
    if constexpr (whole) return detail::split_from<Axis, 0, Sizes...>(x);
  }
}

namespace detail {
template <index_t Axis, index_t First, index_t Count, index_t... Rest, class X>
GRADUS_OF_BUILD constexpr auto split_from(const X& x) {
  auto part = std::make_tuple(slice<Axis, First, Count>(x));
  if constexpr (sizeof...(Rest) == 0) return part;
  else return std::tuple_cat(std::move(part), split_from<Axis, First + Count, Rest...>(x));
}
}  // namespace detail

// A negative axis, position or size does not compile.
namespace detail {
template <auto... Numbers>
inline constexpr bool numbers_are_not_negative = ((Numbers >= 0) && ...);
}  // namespace detail
template <auto Axis, auto First, auto Count, operand X>
  requires(Axis < 0 || First < 0 || Count < 0)
constexpr void slice(X&&) {
  static_assert(detail::numbers_are_not_negative<Axis, First, Count>,
                "slice<axis, first, count>(x): axes and positions count from 0, from the front");
}
template <auto Axis, operand X, operand... Xs>
  requires(Axis < 0)
constexpr void concat(X&&, Xs&&...) {
  static_assert(detail::numbers_are_not_negative<Axis>, "concat<axis>(a, b, ...): axes count from 0, from the front");
}
template <auto Axis, auto... Sizes, operand X>
  requires(Axis < 0 || ((Sizes < 0) || ...))
constexpr void split(X&&) {
  static_assert(detail::numbers_are_not_negative<Axis, Sizes...>,
                "split<axis, sizes...>(x): axes count from 0, from the front, and sizes are at least 1");
}

}  // namespace gradus
