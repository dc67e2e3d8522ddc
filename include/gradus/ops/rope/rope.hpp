#pragma once
// Rotary position embedding: operation and gradient.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
#include "../../core/shape_algebra.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {

/// The angle per position of pair i of a head of `depth` elements.
inline double rope_frequency(const rope_options& of, index_t pair, index_t depth) {
  const double frequency = std::pow(of.base, -2 * static_cast<double>(pair) / static_cast<double>(depth));
  const rope_scaling& by = of.scaling;
  if (by.factor == 1) return frequency;
  if (by.rule == rope_rule::linear) return frequency / by.factor;
  constexpr double turn = 6.283185307179586476925;
  if (by.rule == rope_rule::yarn) {  // linear in the pair, between whole pairs
    const auto pair_of = [&](double turns) {
      return static_cast<double>(depth) * std::log(by.original_context / (turns * turn)) / (2 * std::log(of.base));
    };
    const double first = std::max(std::floor(pair_of(by.high_freq_factor)), 0.0);
    const double last = std::min(std::ceil(pair_of(by.low_freq_factor)), static_cast<double>(depth) - 1);
    const double ramp = (static_cast<double>(pair) - first) / (first == last ? 0.001 : last - first);
    const double longer = std::clamp(ramp, 0.0, 1.0);
    return longer * frequency / by.factor + (1 - longer) * frequency;
  }
  const double turns = by.original_context * frequency / turn;
  if (turns > by.high_freq_factor) return frequency;
  if (turns < by.low_freq_factor) return frequency / by.factor;
  const double smooth = (turns - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor);
  return (1 - smooth) * frequency / by.factor + smooth * frequency;
}

/// Extents of x [batch, time, heads * depth]. If rows have positions of their own, all are times of one batch.
struct rope_sizes {
  index_t batch, time, heads, depth;
};

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Rotates pairs of elements of each head by angles that grow with the position (Su et al., "RoFormer", 2021): the
/// row, or an element of a second operand. The gradient is rotated back. The kernel's positions [time] may be null.
template <index_t Heads>
struct rope {
  rope_options options;

  static constexpr std::string_view name = "rope";
  static constexpr save_rule saves = save_inputs(1);
  static constexpr flop_counts flops_per_element{3, 3};

  template <class Call, class X, class... Positions>
  constexpr X forward(Call how, X x, const Positions&... positions) const {
    (check(x, positions), ...);
    return rotated(how.owner(), std::move(x), false, positions...);
  }
  template <class Saved, class Y, class X, class... Positions>
  constexpr void backward([[maybe_unused]] const Saved& saved, Y dy, const gradient_sink<X>& dx,
                          const gradient_sink<Positions>&...) const {
    if (!dx) return;
    auto& ctx = dy.owner();
    if constexpr (sizeof...(Positions) == 0) dx.give(rotated(ctx, std::move(dy), true));
    else dx.give(rotated(ctx, std::move(dy), true, input<1>(saved)));
  }

 private:
  template <class X, class Positions>
  static constexpr void check(const X& x, const Positions& positions) {
    for (index_t i = 0; i < Positions::shape::rank; ++i)
      check_extents_meet(name, i, x.extents().extents[i], positions.extents().extents[i]);
  }
  // In place if x has no other owner.
  template <class X, class... Positions>
  constexpr X rotated(context<typename X::device>& ctx, X x, bool back, const Positions&... positions) const {
    const index_t width = x.extent(-1), rows = x.extents().size / width;
    const index_t batch = sizeof...(Positions) > 0 ? 1 : rows / x.extent(-2);
    const gradus::detail::rope_sizes sizes{batch, rows / batch, Heads, width / Heads};
    const std::int32_t* of_rows = nullptr;
    ((of_rows = positions.data()), ...);
    const auto* const from = std::as_const(x).data();
    using kernels = kernel<rope<0>, typename X::device>;
    if (x.unique()) {
      kernels::forward(ctx, options, back, sizes, of_rows, x.data(), from);
      return x;
    }
    X y(ctx, x.extents());
    kernels::forward(ctx, options, back, sizes, of_rows, y.data(), from);
    return y;
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

template <index_t Width, index_t Heads>
inline constexpr bool heads_have_pairs = Heads > 0 && !is_bounded(Width) && Width % (2 * Heads) == 0;
template <class X, class Positions>
inline constexpr bool a_position_for_each_row =
    std::is_same_v<X, joined_shape<Positions, shape<X::extent_in_type(X::rank - 1)>>>;

template <index_t Heads, class T, class S>
constexpr bool check_rope() {
  GRADUS_REQUIRE("rope<Heads>(x): x must have at least two axes, [..., T, Heads*D]", S::rank >= 2)
  GRADUS_REQUIRE("rope<Heads>(x): x must have floating-point elements", is_floating<T>)
  GRADUS_REQUIRE("rope<Heads>(x): the last axis must be divisible by 2 * Heads",
                 heads_have_pairs<S::extent_in_type(-1), Heads>)
  { return true; }
  return false;
}
inline const rope_options& checked(const rope_options& options) {
  if (!(options.base > 0))
    throw error("rope(x, options): base is " + std::to_string(options.base) + "; it must be positive");
  return options;
}

}  // namespace detail

/// Rotary position embedding: x [..., T, Heads*D], each head's pairs of elements rotated by an angle for its position,
/// options.position + t. Apply it to queries and keys: `rope<8>(q, {.base = 500000, .position = past})`. Cosines and
/// sines are computed from angles in double. Throws gradus::error unless base is positive.
template <index_t Heads, operand X>
GRADUS_OF_BUILD constexpr auto rope(X&& x, const rope_options& options = {}) {
  if constexpr (detail::check_rope<Heads, value_of_t<X>, shape_of<X>>())
    return apply(op::rope<Heads>{detail::checked(options)}, std::forward<X>(x));
}

/// rope with a position for each row: `positions` [..., T], of std::int32_t and without a gradient, take the place of
/// t. A document whose positions begin at 0 has the bits of a sequence of its own.
template <index_t Heads, operand X, operand Positions>
GRADUS_OF_BUILD constexpr auto rope(X&& x, Positions&& positions, const rope_options& options = {}) {
  if constexpr (detail::check_rope<Heads, value_of_t<X>, shape_of<X>>()) {
    GRADUS_REQUIRE("rope<Heads>(x, positions): positions must have elements of std::int32_t",
                   (std::is_same_v<value_of_t<Positions>, std::int32_t>))
    GRADUS_REQUIRE("rope<Heads>(x, positions): positions must be [..., T], of the shape of x without its last axis",
                   detail::a_position_for_each_row<shape_of<X>, shape_of<Positions>>)
    return apply(op::rope<Heads>{detail::checked(options)}, std::forward<X>(x), std::forward<Positions>(positions));
  }
}

}  // namespace gradus
