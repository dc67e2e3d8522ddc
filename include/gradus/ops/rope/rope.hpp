#pragma once
// Rotary position embedding: operation and gradient.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
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

/// Extents of x [batch, time, heads * depth]. Times that have positions of their own are those of one batch.
struct rope_sizes {
  index_t batch, time, heads, depth;
};

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Rotates pairs of elements of each head by angles that grow with the position (Su et al., "RoFormer", 2021): the
/// row's, or that of a second operand. The gradient is rotated back. The kernel's positions [time] may be null.
template <index_t Heads>
struct rope {
  rope_options options;

  static constexpr std::string_view name = "rope";
  static constexpr save_rule saves = save_inputs(1);
  static constexpr flop_counts flops_per_element{3, 3};

  template <class Call, class X>
  constexpr X forward(Call how, X x) const {
    const index_t rows = x.extents().size / x.extent(-1), time = x.extent(-2);
    return rotated(how.owner(), std::move(x), rows / time, nullptr, false);
  }
  template <class Call, class X, class Positions>
  constexpr X forward(Call how, X x, const Positions& positions) const {
    for (index_t i = 0; i < Positions::shape::rank; ++i)
      check_extents_meet(name, i, x.extents().extents[i], positions.extents().extents[i]);
    return rotated(how.owner(), std::move(x), 1, positions.data(), false);
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    auto& ctx = dy.owner();
    const index_t rows = dy.extents().size / dy.extent(-1), time = dy.extent(-2);
    if (dx) dx.give(rotated(ctx, std::move(dy), rows / time, nullptr, true));
  }
  template <class Saved, class Y, class X, class Positions>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<Positions>&) const {
    auto& ctx = dy.owner();
    if (dx) dx.give(rotated(ctx, std::move(dy), 1, input<1>(saved).data(), true));
  }

 private:
  // In place if x has no other owner.
  template <class X>
  constexpr X rotated(context<typename X::device>& ctx, X x, index_t batch, const std::int32_t* positions,
                      bool back) const {
    const index_t width = x.extent(-1);
    const gradus::detail::rope_sizes sizes{batch, x.extents().size / (batch * width), Heads, width / Heads};
    const auto* const from = std::as_const(x).data();
    using rows = kernel<rope<0>, typename X::device>;
    if (x.unique()) {
      rows::forward(ctx, options, back, sizes, positions, x.data(), from);
      return x;
    }
    X y(ctx, x.extents());
    rows::forward(ctx, options, back, sizes, positions, y.data(), from);
    return y;
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t Width, index_t Heads>
inline constexpr bool heads_have_pairs = Heads > 0 && !is_bounded(Width) && Width % (2 * Heads) == 0;
[[noreturn]] inline void rope_rejects(double base) {
  throw error("rope(x, options): base is " + std::to_string(base) + "; it must be positive");
}
}  // namespace detail

/// Rotary position embedding: x [..., T, Heads*D], each head's pairs of elements rotated by an angle for its position,
/// options.position + t. Apply it to queries and keys: `rope<8>(q, {.base = 500000, .position = past})`. Cosines and
/// sines are computed from angles in double. Throws gradus::error unless base is positive.
template <index_t Heads, operand X>
GRADUS_OF_BUILD constexpr auto rope(X&& x, const rope_options& options = {}) {
  using s = shape_of<X>;
  if (!(options.base > 0)) detail::rope_rejects(options.base);
  GRADUS_REQUIRE("rope<Heads>(x): x must have at least two axes, [..., T, Heads*D]", s::rank >= 2)
  GRADUS_REQUIRE("rope<Heads>(x): x must have floating-point elements", is_floating<value_of_t<X>>)
  GRADUS_REQUIRE("rope<Heads>(x): the last axis must be divisible by 2 * Heads",
                 detail::heads_have_pairs<s::extent_in_type(-1), Heads>)
  return apply(op::rope<Heads>{options}, std::forward<X>(x));
}

}  // namespace gradus
