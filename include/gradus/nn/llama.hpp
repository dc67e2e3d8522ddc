#pragma once
// Attention, MLP and block of a Llama (Touvron et al., "LLaMA", 2023): root-mean-square norms, rotary positions, heads
// of queries that share keys and values, SwiGLU, and no biases.

#include <utility>

#include "../core/config.hpp"
#include "../ops/attention/attention.hpp"
#include "../ops/attention/cached.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/rope/rope.hpp"
#include "layers.hpp"
#include "transformer.hpp"

namespace gradus::nn {

/// The numbers of a Llama that are neither sizes nor parameters.
struct llama_settings {
  double norm_eps = 1e-5;
  rope_options rope = {};
};

namespace detail {
template <index_t Heads, index_t KvHeads>
inline constexpr bool heads_share_keys = KvHeads > 0 && Heads % KvHeads == 0;
}  // namespace detail

/// Causal self-attention with rotary positions: x [B, T, Width] -> [B, T, Width]. Each of KvHeads heads of keys and
/// values serves Heads / KvHeads adjacent heads of queries (Ainslie et al., "GQA", 2023).
template <class X, index_t Width, index_t Heads, index_t KvHeads, index_t Depth = 1>
struct rotary_attention {
  static_assert(detail::heads_divide_width<2 * Heads, Width>,
                "rotary_attention<X, Width, Heads, KvHeads>: Width must be divisible by 2 * Heads");
  static_assert(detail::heads_share_keys<Heads, KvHeads>,
                "rotary_attention<X, Width, Heads, KvHeads>: Heads must be a multiple of KvHeads");
  static constexpr index_t kv_width = Width / Heads * KvHeads;

  linear_without_bias<X, Width, Width> query;
  linear_without_bias<X, Width, kv_width> key, value;
  linear_without_bias<X, Width, Width> projection{param<X, Width, Width>{start::drawn, detail::residual_scale(Depth)}};
  GRADUS_MEMBERS(query, key, value, projection)

  GRADUS_OF_BUILD constexpr auto operator()(const auto& x, const rope_options& turns = {}) const {
    auto q = rope<Heads>(query(x), turns);
    auto k = rope<KvHeads>(key(x), turns);
    return projection(gradus::attention<Heads>(std::move(q), std::move(k), value(x), {.causal = true}));
  }
  /// Attention of new tokens x that follow those in `past`.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(const auto& x, const key_value_view<T, S, D>& past,
                                            rope_options turns = {}) const {
    turns.position += past.position;
    auto q = rope<Heads>(query(x), turns);
    auto k = rope<KvHeads>(key(x), turns);
    return projection(gradus::attention<Heads>(std::move(q), std::move(k), value(x), past));
  }
};

/// down(silu(gate(x)) * up(x)): x [..., Width] -> [..., Width], with Hidden features between.
template <class X, index_t Width, index_t Hidden, index_t Depth = 1>
struct swiglu_mlp {
  linear_without_bias<X, Width, Hidden> gate, up;
  linear_without_bias<X, Hidden, Width> down{param<X, Hidden, Width>{start::drawn, detail::residual_scale(Depth)}};
  GRADUS_MEMBERS(gate, up, down)

  GRADUS_OF_BUILD constexpr auto operator()(const auto& x) const { return down(swiglu(gate(x), up(x))); }
};

/// A block of a Llama: x + attention(norm(x)), then x + mlp(norm(x)); dropout on both branches. Depth is the model's
/// number of blocks, by which residual projections start smaller.
template <class X, index_t Width, index_t Heads, index_t KvHeads, index_t Hidden, index_t Depth = 1>
struct llama_block {
  using norm = rms_norm<typename detail::norms_before_products<X>::type, Width>;
  norm norm1;
  rotary_attention<X, Width, Heads, KvHeads, Depth> attention;
  norm norm2;
  swiglu_mlp<X, Width, Hidden, Depth> mlp;
  GRADUS_MEMBERS(norm1, attention, norm2, mlp)

  GRADUS_OF_BUILD constexpr auto operator()(auto x, const llama_settings& with = {}, double drop = 0) const {
    auto y = x + dropout(attention(norm1(x, with.norm_eps), with.rope), drop);
    return y + dropout(mlp(norm2(y, with.norm_eps)), drop);
  }
  /// The block on new tokens that follow those in `past`, without dropout.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const key_value_view<T, S, D>& past,
                                            const llama_settings& with = {}) const {
    auto y = x + attention(norm1(x, with.norm_eps), past, with.rope);
    return y + mlp(norm2(y, with.norm_eps));
  }
};

}  // namespace gradus::nn
