#pragma once
// Attention, feed-forward and block of a post-norm transformer encoder (Vaswani et al., "Attention Is All You Need",
// 2017; Devlin et al., "BERT", 2018).

#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../ops/attention/attention.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/elementwise/functions.hpp"
#include "activation.hpp"
#include "layers.hpp"
#include "transformer.hpp"

namespace gradus::nn {

/// Self-attention with Heads heads and separate products for queries, keys and values: x [B, T, Width] -> [B, T,
/// Width]. `options` as in gradus::attention: documents, or key_lengths or a mask for padding; dropout of weights.
template <class X, index_t Width, index_t Heads>
struct self_attention {
  static_assert(detail::heads_divide_width<Heads, Width>,
                "self_attention<X, Width, Heads>: Width must be divisible by Heads");
  linear<X, Width, Width> query, key, value, output;
  GRADUS_MEMBERS(query, key, value, output)

  GRADUS_OF_BUILD constexpr auto operator()(const auto& x,
                                            const attention_options<typename X::device>& options = {}) const {
    using from = value_of_t<decltype(x)>;
    using to = typename X::compute;
    // One cast, and one copy for backward, for the three products.
    if constexpr (detail::norms_before_products<X>::casts && !std::is_same_v<from, to>)
      return operator()(cast<to>(x), options);
    else return output(gradus::attention<Heads>(query(x), key(x), value(x), options));
  }
};

/// The function that an `activation` names, of each element of x.
template <activation Activation>
GRADUS_OF_BUILD constexpr auto activate(auto&& x) {
  using V = decltype(x);
  if constexpr (Activation == activation::gelu_erf) return gradus::gelu_erf(std::forward<V>(x));
  else if constexpr (Activation == activation::gelu) return gradus::gelu(std::forward<V>(x));
  else if constexpr (Activation == activation::relu) return gradus::relu(std::forward<V>(x));
  else if constexpr (Activation == activation::silu) return gradus::silu(std::forward<V>(x));
  else return gradus::tanh(std::forward<V>(x));
}

/// linear, activation, linear: x [..., Width] -> [..., Width], with Hidden features between.
template <class X, index_t Width, index_t Hidden, activation Activation = activation::gelu_erf>
struct feed_forward {
  linear<X, Width, Hidden> up;
  linear<X, Hidden, Width> down;
  GRADUS_MEMBERS(up, down)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return down(activate<Activation>(up(std::forward<decltype(x)>(x))));
  }
};

/// A post-norm transformer block (BERT): y = norm1(x + attention(x)), then norm2(y + mlp(y)); dropout on both branches.
/// The norms add `norm1.eps` and `norm2.eps` to the variance, 1e-12 by default.
template <class X, index_t Width, index_t Heads, index_t Hidden = 4 * Width,
          activation Activation = activation::gelu_erf>
struct encoder_block {
  nn::self_attention<X, Width, Heads> attention;
  layer_norm<X, Width> norm1{.eps = 1e-12};
  feed_forward<X, Width, Hidden, Activation> mlp;
  layer_norm<X, Width> norm2{.eps = 1e-12};
  GRADUS_MEMBERS(attention, norm1, mlp, norm2)

  /// @param options of attention
  /// @param drop    probability of dropout on the branches
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const attention_options<typename X::device>& options = {},
                                            double drop = 0) const {
    auto y = norm1(x + dropout(attention(x, options), drop));
    return norm2(y + dropout(mlp(y), drop));
  }
};

}  // namespace gradus::nn
