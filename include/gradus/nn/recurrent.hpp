#pragma once
// Recurrent layers, lstm and gru, and the states by which one call continues the sequence of another.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "../autodiff/backward.hpp"
#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../model/parameters.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/recurrent/recurrent.hpp"
#include "../ops/reshape/reshape.hpp"
#include "../ops/slice/stack_pad_roll.hpp"
#include "../tensor/creation.hpp"
#include "../tensor/optional_tensor.hpp"
#include "layers.hpp"

namespace gradus::nn {

/// The state of lstm: h and c, [Layers, B, Hidden] each; tensors, or traced values in a recording.
template <class H, class C>
struct lstm_state {
  H h;
  C c;
};
/// The state of gru: h [Layers, B, Hidden].
template <class H>
struct gru_state {
  H h;
};
template <class H, class C>
lstm_state(H, C) -> lstm_state<H, C>;
template <class H>
gru_state(H) -> gru_state<H>;

/// Options of a call of lstm and gru.
template <class D>
struct recurrent_options {
  double dropout = 0;     ///< probability of setting an output to 0 that another layer reads, if x is recorded
  bool reversed = false;  ///< from the last step to the first
  /// [B], each 0 to T: the steps of each row; see gradus::recurrent_options.
  optional_tensor<std::int32_t, D> lengths = {};
};

namespace detail {

template <index_t At, class X>
GRADUS_OF_BUILD constexpr auto entry(const X& x) {
  using s = shape_of<X>;
  return reshape<s::extent_in_type(1), s::extent_in_type(2)>(slice<0, At, 1>(x));
}
/// The state of layer At, and the state of all layers.
template <index_t At, class H, class C>
GRADUS_OF_BUILD constexpr auto layer_state(const lstm_state<H, C>& of) {
  auto h = entry<At>(of.h);
  auto c = entry<At>(of.c);
  return lstm_state<decltype(h), decltype(c)>{std::move(h), std::move(c)};
}
template <index_t At, class H>
GRADUS_OF_BUILD constexpr auto layer_state(const gru_state<H>& of) {
  auto h = entry<At>(of.h);
  return gru_state<decltype(h)>{std::move(h)};
}
template <class... H, class... C>
GRADUS_OF_BUILD constexpr auto stacked(const lstm_state<H, C>&... of) {
  auto h = stack<0>(of.h...);
  auto c = stack<0>(of.c...);
  return lstm_state<decltype(h), decltype(c)>{std::move(h), std::move(c)};
}
template <class... H>
GRADUS_OF_BUILD constexpr auto stacked(const gru_state<H>&... of) {
  auto h = stack<0>(of.h...);
  return gru_state<decltype(h)>{std::move(h)};
}

template <class X, index_t In, index_t Hidden>
struct lstm_layer {
  linear<X, In, 4 * Hidden> input;
  param<X, Hidden, 4 * Hidden> hidden;
  GRADUS_MEMBERS(input, hidden)

  GRADUS_OF_BUILD constexpr auto operator()(auto x, const auto& options) const {
    return gradus::lstm(input(std::move(x)), hidden, options);
  }
  template <class H, class C>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const lstm_state<H, C>& from, const auto& options) const {
    auto [y, h, c] = gradus::lstm(input(std::move(x)), hidden, from.h, from.c, options);
    return std::pair(std::move(y), lstm_state<decltype(h), decltype(c)>{std::move(h), std::move(c)});
  }
  template <class Shape>
  static constexpr auto zero_state(context<typename X::device>& ctx, const extents_of<Shape>& extents) {
    auto h = zeros<typename X::compute, Shape>(ctx, extents);
    auto c = zeros<compute_type<typename X::compute>, Shape>(ctx, extents);
    return lstm_state<decltype(h), decltype(c)>{std::move(h), std::move(c)};
  }
};

template <class X, index_t In, index_t Hidden>
struct gru_layer {
  linear<X, In, 3 * Hidden> input;
  linear<X, Hidden, 3 * Hidden> hidden;
  GRADUS_MEMBERS(input, hidden)

  GRADUS_OF_BUILD constexpr auto operator()(auto x, const auto& options) const {
    return gradus::gru(input(std::move(x)), hidden.weight, hidden.bias, options);
  }
  template <class H>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const gru_state<H>& from, const auto& options) const {
    auto [y, h] = gradus::gru(input(std::move(x)), hidden.weight, hidden.bias, from.h, options);
    return std::pair(std::move(y), gru_state<decltype(h)>{std::move(h)});
  }
  template <class Shape>
  static constexpr auto zero_state(context<typename X::device>& ctx, const extents_of<Shape>& extents) {
    auto h = zeros<typename X::compute, Shape>(ctx, extents);
    return gru_state<decltype(h)>{std::move(h)};
  }
};

template <template <class, index_t, index_t> class Layer, class X, index_t In, index_t Hidden, class Numbers>
struct layer_tuple;
template <template <class, index_t, index_t> class Layer, class X, index_t In, index_t Hidden, std::size_t... Is>
struct layer_tuple<Layer, X, In, Hidden, std::index_sequence<Is...>> {
  using type = std::tuple<Layer<X, Is == 0 ? In : Hidden, Hidden>...>;
};

template <class Tensor>
inline constexpr bool is_a_state = false;

/// lstm and gru: layers of one kind, each of which reads the outputs of the one before.
template <template <class, index_t, index_t> class Layer, class X, index_t In, index_t Hidden, index_t Layers>
struct recurrent_stack {
  static_assert(Layers >= 1, "lstm<X, In, Hidden, Layers>, gru<X, In, Hidden, Layers>: at least one layer");
  using device = typename X::device;
  using options = nn::recurrent_options<device>;

  typename layer_tuple<Layer, X, In, Hidden, std::make_index_sequence<Layers>>::type layers;
  GRADUS_MEMBERS(layers)

  /// From a state of zeros: x [B, T, In] -> y [B, T, Hidden].
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const options& how = {}) const { return run<0>(std::move(x), how); }
  /// From `state`: returns the pair of y and the state after the last step.
  template <template <class...> class State, class... Parts>
    requires requires(State<Parts...> s) { s.h; }
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const State<Parts...>& state, const options& how = {}) const {
    return run_from<0>(std::move(x), state, how);
  }
  template <operand H>
  constexpr void operator()(const auto&, const H&, const options& = {}) const {
    static_assert(is_a_state<H>,
                  "lstm(x, state), gru(x, state): the state is nn::lstm_state{h, c} or nn::gru_state{h}, where h and c "
                  "are [Layers, B, Hidden]");
  }
  /// A state of zeros for Batch rows; if Batch is upto<N>, for `rows`.
  template <index_t Batch>
  static constexpr auto zero_state(context<device>& ctx, index_t rows = gradus::detail::bound_of(Batch)) {
    using s = shape<Layers, Batch, Hidden>;
    return Layer<X, In, Hidden>::template zero_state<s>(ctx, extents_from<s>([&] {
                                                          return std::array{Layers, rows, Hidden};
                                                        }));
  }

 private:
  static constexpr gradus::recurrent_options<device> of_layer(const options& how) {
    return {how.reversed, how.lengths};
  }
  template <std::size_t At>
  GRADUS_OF_BUILD constexpr auto run(auto x, const options& how) const {
    auto y = std::get<At>(layers)(std::move(x), of_layer(how));
    if constexpr (At + 1 == Layers) return y;
    else return run<At + 1>(dropout(std::move(y), how.dropout), how);
  }
  template <std::size_t At, class... Done>
  GRADUS_OF_BUILD constexpr auto run_from(auto x, const auto& state, const options& how, const Done&... done) const {
    auto [y, next] = std::get<At>(layers)(std::move(x), layer_state<At>(state), of_layer(how));
    if constexpr (At + 1 == Layers) return std::pair(std::move(y), stacked(done..., next));
    else return run_from<At + 1>(dropout(std::move(y), how.dropout), state, how, done..., next);
  }
};

}  // namespace detail

/// Layers of long short-term memory with In inputs and Hidden units, x [B, T, In] -> [B, T, Hidden]: `lstm(x)` from a
/// state of zeros; `auto [y, next] = lstm(x, state)` from the state after an earlier call, or `zero_state<B>(ctx)`.
/// Generation calls it with T = 1. Weights are [In, 4*Hidden] and [Hidden, 4*Hidden]; the two biases that PyTorch adds
/// are one.
template <class X, index_t In, index_t Hidden, index_t Layers = 1>
using lstm = detail::recurrent_stack<detail::lstm_layer, X, In, Hidden, Layers>;

/// Layers of gated recurrent units with In inputs and Hidden units, x [B, T, In] -> [B, T, Hidden]; called like lstm.
/// Weights are [In, 3*Hidden] and [Hidden, 3*Hidden], each with a bias.
template <class X, index_t In, index_t Hidden, index_t Layers = 1>
using gru = detail::recurrent_stack<detail::gru_layer, X, In, Hidden, Layers>;

}  // namespace gradus::nn

namespace gradus {

/// The state as a constant that shares its elements: no gradient flows into the part of the sequence before it
/// (truncated backpropagation through time).
template <class H, class C>
constexpr auto detach(const nn::lstm_state<H, C>& of) {
  return nn::lstm_state<tensor_of<H>, tensor_of<C>>{detach(of.h), detach(of.c)};
}
template <class H>
constexpr auto detach(const nn::gru_state<H>& of) {
  return nn::gru_state<tensor_of<H>>{detach(of.h)};
}

}  // namespace gradus
