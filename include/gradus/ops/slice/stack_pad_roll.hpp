#pragma once
// stack, pad and roll: by moving blocks, too.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../reshape/reshape.hpp"
#include "slice.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// Adds Before and After entries of one value around an axis. Gradient: the entries between them.
template <index_t Axis, index_t Before, index_t After, class T>
struct pad {
  T value;

  static constexpr std::string_view name = "pad";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  using output_of = with_shape<X, with_extent<typename X::shape, Axis, Before + X::shape::in_type[Axis] + After>>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    auto& ctx = how.owner();
    const index_t count = x.extents().extents[Axis];
    constexpr index_t in_type = output_of<X>::shape::in_type[Axis];
    output_of<X> y(ctx, replaced_extents<Axis, in_type>(x.extents(), Before + count + After));
    gradus::detail::fill(ctx, y.data(), value, y.extents().size);
    move_entries<Axis>(ctx, y, Before, x, 0, count);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    const index_t count = dx.extents().extents[Axis];
    dx.template write_as<typename Y::value_type>(
        dy.owner(), [&](auto to) { move_entries<Axis>(dy.owner(), to.tensor, 0, dy, Before, count, to.accumulate); });
  }
};

/// Moves entries `shift` places towards the end of an axis, and the last ones to its start. Gradient: moves them back.
template <index_t Axis>
struct roll {
  std::ptrdiff_t shift;

  static constexpr std::string_view name = "roll";
  static constexpr save_rule saves = save_nothing();

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    const index_t extent = x.extents().extents[Axis], by = places(extent);
    X y(how.owner(), x.extents());
    move_entries<Axis>(how.owner(), y, by, x, 0, extent - by);
    move_entries<Axis>(how.owner(), y, 0, x, extent - by, by);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    const index_t extent = dx.extents().extents[Axis], by = places(extent);
    dx.template write_as<typename Y::value_type>(dy.owner(), [&](auto to) {
      move_entries<Axis>(dy.owner(), to.tensor, 0, dy, by, extent - by, to.accumulate);
      move_entries<Axis>(dy.owner(), to.tensor, extent - by, dy, 0, by, to.accumulate);
    });
  }

 private:
  constexpr index_t places(index_t extent) const {
    const auto n = static_cast<std::ptrdiff_t>(extent);
    return static_cast<index_t>((shift % n + n) % n);
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
// S with a new axis of one entry before axis Axis.
template <class S, index_t Axis>
struct insert_rule {
  struct list {
    constexpr auto operator()() const {
      std::array<index_t, S::rank + 1> out{};
      for (index_t i = 0; i != S::rank + 1; ++i) out[i] = i == Axis ? 1 : S::in_type[i > Axis ? i - 1 : i];
      return out;
    }
  };
  using type = typename shape_from<S::rank + 1, list>::type;
};
template <class A, class B>
inline constexpr bool stacked_shapes_are_equal = std::is_same_v<A, B>;
template <std::ptrdiff_t... Counts>
inline constexpr bool counts_are_not_negative = ((Counts >= 0) && ...);
}  // namespace detail

/// Stacks operands of one shape along a new axis: `stack<0>(a, b)` of two [n] is [2, n]; `stack<1>(a, b)` is [n, 2].
template <std::ptrdiff_t Axis, operand X, operand... Xs>
GRADUS_OF_BUILD constexpr auto stack(X&& x, Xs&&... xs) {
  using s = shape_of<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank + 1>(Axis);
  GRADUS_REQUIRE("stack<axis>(a, b, ...): the result has no such axis", detail::axis_exists<axis, s::rank + 1>)
  GRADUS_REQUIRE("stack<axis>(a, b, ...): the shapes must be equal; concat<axis> joins others",
                 (detail::stacked_shapes_are_equal<s, shape_of<Xs>> && ...))
  return concat<Axis>(apply(op::reshape<typename detail::insert_rule<s, axis>::type>{}, std::forward<X>(x)),
                      apply(op::reshape<typename detail::insert_rule<s, axis>::type>{}, std::forward<Xs>(xs))...);
}

/// x with Before and After entries of `value` around Axis: [.., n, ..] -> [.., Before + n + After, ..].
template <std::ptrdiff_t Axis, std::ptrdiff_t Before, std::ptrdiff_t After, operand X>
GRADUS_OF_BUILD constexpr auto pad(X&& x, double value = 0) {
  using s = shape_of<X>;
  using T = value_of_t<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank>(Axis);
  GRADUS_REQUIRE("pad<axis, before, after>(x, value): x has no such axis", detail::axis_exists<axis, s::rank>)
  GRADUS_REQUIRE("pad<axis, before, after>(x, value): before and after must be at least 0; slice removes entries",
                 detail::counts_are_not_negative<Before, After>)
  return apply(op::pad<axis, static_cast<index_t>(Before), static_cast<index_t>(After), T>{static_cast<T>(
                   static_cast<compute_type<T>>(value))},
               std::forward<X>(x));
}

/// x with its entries moved `shift` places along Axis, around its end: entry i becomes entry (i + shift) mod n.
template <std::ptrdiff_t Axis, operand X>
GRADUS_OF_BUILD constexpr auto roll(X&& x, std::ptrdiff_t shift) {
  using s = shape_of<X>;
  constexpr index_t axis = detail::axis_from_front<s::rank>(Axis);
  GRADUS_REQUIRE("roll<axis>(x, shift): x has no such axis", detail::axis_exists<axis, s::rank>)
  return apply(op::roll<axis>{shift}, std::forward<X>(x));
}

}  // namespace gradus
