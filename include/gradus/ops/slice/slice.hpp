#pragma once
// slice, concat and split: operations, shape rules and gradients, all by moving blocks.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

/// A block of `rows` runs of `run` elements, with an offset and a row stride on either side.
struct block_move {
  index_t rows, run;
  index_t to_offset, to_stride;
  index_t from_offset, from_stride;
};

namespace op::inline GRADUS_BUILD {

/// Copies (or adds) a block: kernel forward(ctx, T* to, const T* from, block_move, bool accumulate).
struct move_block {};

/// Entries First .. First+Count-1 along an axis. Gradient: the same entries; 0 elsewhere.
template <index_t Axis, index_t First, index_t Count>
struct slice {
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
    output_of<X> y(how.owner());
    constexpr index_t inner = X::shape::stride(Axis);
    constexpr index_t wide = X::shape::extents[Axis] * inner;
    kernel<move_block, typename X::device>::forward(
        how.owner(), y.data(), x.data(),
        block_move{X::size / wide, Count * inner, 0, Count * inner, First * inner, wide}, false);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    constexpr index_t inner = X::shape::stride(Axis);
    constexpr index_t wide = X::shape::extents[Axis] * inner;
    dx.template write_as<typename Y::value_type>(dy.owner(), [&](auto to) {
      if (!to.accumulate) device_access<typename X::device>::zero(dy.owner(), to.tensor.data(), to.tensor.bytes);
      kernel<move_block, typename X::device>::forward(
          dy.owner(), to.tensor.data(), dy.data(),
          block_move{X::size / wide, Count * inner, First * inner, wide, 0, Count * inner}, to.accumulate);
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
      with_shape<X, with_extent<typename X::shape, Axis, (X::shape::extents[Axis] + ... + Xs::shape::extents[Axis])>>;
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
    output_of<X, Xs...> y(ctx);
    index_t at = 0;
    const auto put = [&](const auto& part) {
      using P = std::remove_cvref_t<decltype(part)>;
      constexpr index_t run = P::shape::extents[Axis] * P::shape::stride(Axis);
      kernel<move_block, typename X::device>::forward(
          ctx, y.data(), part.data(), block_move{P::size / run, run, at, width<decltype(y)>, 0, run}, false);
      at += run;
    };
    put(x);
    (put(xs), ...);
    return y;
  }
  template <class Saved, class Y, class... Xs>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<Xs>&... sinks) const {
    index_t at = 0;
    const auto take = [&]<class X>(const gradient_sink<X>& dx) {
      constexpr index_t run = X::shape::extents[Axis] * X::shape::stride(Axis);
      if (dx) {
        dx.template write_as<typename Y::value_type>(dy.owner(), [&](auto to) {
          kernel<move_block, typename X::device>::forward(dy.owner(), to.tensor.data(), dy.data(),
                                                          block_move{X::size / run, run, 0, run, at, width<Y>},
                                                          to.accumulate);
        });
      }
      at += run;
    };
    (take(sinks), ...);
  }

 private:
  template <class Y>
  static constexpr index_t width = Y::shape::extents[Axis] * Y::shape::stride(Axis);
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
  else return std::is_same_v<A, with_extent<B, Axis, A::extents[Axis]>>;
}
template <class A, class B, index_t Axis>
inline constexpr bool shapes_fit_beside = fits_beside<Axis, A, B>();

template <index_t Axis, index_t First, index_t Count, index_t... Rest, class X>
GRADUS_OF_BUILD constexpr auto split_from(const X& x);
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
      return apply(op::slice<Axis, First, Count>{}, std::forward<X>(x));
  }
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
