#pragma once
// Attention, MLP and block of a Llama (Touvron et al., "LLaMA", 2023) and its relatives: root-mean-square norms, rotary
// positions, heads of queries that share keys and values, a gated MLP or a mixture of them.

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../ops/attention/cached.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/reshape/reshape.hpp"
#include "../ops/rope/rope.hpp"
#include "layers.hpp"
#include "llama_settings.hpp"
#include "mixture.hpp"
#include "packed_rows.hpp"
#include "transformer.hpp"

namespace gradus::nn {

/// What a block has besides a Llama's sizes: all that changes its parameters or its operations.
struct llama_kind {
  index_t head = 0;               ///< elements of a head; 0: Width / Heads
  bool biases = false;            ///< of queries, keys and values (Qwen2)
  bool projection_bias = false;   ///< of what attention gives
  bool head_norms = false;        ///< each head's queries and keys are normalised before they turn (Qwen3, Gemma 3)
  bool branch_norms = false;      ///< what attention and the MLP give is normalised (Gemma 2 and 3)
  bool gelu = false;              ///< gates are gelu(x) instead of silu(x)
  index_t experts = 0;            ///< MLPs of a mixture; 0: one for all tokens
  index_t experts_per_token = 0;  ///< of a mixture
};

namespace detail {
template <index_t Heads, index_t KvHeads>
inline constexpr bool heads_share_keys = KvHeads > 0 && Heads % KvHeads == 0;
template <index_t Head>
inline constexpr bool pairs_fill_a_head = Head > 0 && Head % 2 == 0;
template <bool Bias, class X, index_t In, index_t Out>
using linear_or_without_bias = std::conditional_t<Bias, linear<X, In, Out>, linear_without_bias<X, In, Out>>;
/// A residual projection, which starts smaller in a deep model.
template <class Linear, class X, index_t In, index_t Out>
constexpr Linear residual_projection(index_t depth) {
  Linear made{};
  made.weight = linear_weight<X, In, Out>{start::drawn, residual_scale(depth)};
  return made;
}
}  // namespace detail

/// Causal self-attention with rotary positions: x [B, T, Width] -> [B, T, Width]. Each of KvHeads heads of keys and
/// values serves Heads / KvHeads adjacent heads of queries (Ainslie et al., "GQA", 2023).
template <class X, index_t Width, index_t Heads, index_t KvHeads, index_t Depth = 1, llama_kind Kind = llama_kind{}>
struct rotary_attention {
  static_assert(Kind.head != 0 || detail::heads_divide_width<2 * Heads, Width>,
                "rotary_attention<X, Width, Heads, KvHeads>: Width must be divisible by 2 * Heads");
  static_assert(detail::heads_share_keys<Heads, KvHeads>,
                "rotary_attention<X, Width, Heads, KvHeads>: Heads must be a multiple of KvHeads");
  static constexpr index_t head = Kind.head == 0 ? Width / Heads : Kind.head;
  static_assert(detail::pairs_fill_a_head<head>, "rotary_attention<..., Kind>: the head of Kind must be even");
  static constexpr index_t q_width = head * Heads, kv_width = head * KvHeads;
  using head_norm = rms_norm<typename detail::norms_before_products<X>::type, head>;
  using optional_norm = std::conditional_t<Kind.head_norms, head_norm, std::tuple<>>;
  using projection_type = detail::linear_or_without_bias<Kind.projection_bias, X, q_width, Width>;

  detail::linear_or_without_bias<Kind.biases, X, Width, q_width> query;
  detail::linear_or_without_bias<Kind.biases, X, Width, kv_width> key, value;
  optional_norm query_norm, key_norm;
  projection_type projection = detail::residual_projection<projection_type, X, q_width, Width>(Depth);
  GRADUS_MEMBERS(query, key, value, query_norm, key_norm, projection)

  /// @param rows which positions of x are a document; see packed_rows
  template <class Rows = whole_rows>
  GRADUS_OF_BUILD constexpr auto operator()(const auto& x, const llama_settings& with = {},
                                            const Rows& rows = {}) const {
    auto [q, k] = turned(x, with, 0, rows);
    auto how = options(with);
    if constexpr (is_packed<Rows>) how.documents = rows.documents;
    return projection(gradus::attention<Heads>(std::move(q), std::move(k), value(x), how));
  }
  /// Attention of new tokens x that follow those in `past`.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(const auto& x, const key_value_view<T, S, D>& past,
                                            const llama_settings& with = {}) const {
    auto [q, k] = turned(x, with, past.position, whole_rows{});
    return projection(gradus::attention<Heads>(std::move(q), std::move(k), value(x), past, options(with)));
  }

 private:
  static constexpr auto options(const llama_settings& with) {
    return attention_options<typename X::device>{
        .causal = true, .scale = with.score_scale, .window = static_cast<index_t>(with.window), .cap = with.score_cap};
  }
  template <class Rows>
  constexpr auto turned(const auto& x, const llama_settings& with, index_t position,
                        [[maybe_unused]] const Rows& rows) const {
    rope_options turns = with.rope;
    turns.position += position;
    auto q = normed(query_norm, query(x), with.norm_eps);
    auto k = normed(key_norm, key(x), with.norm_eps);  // another type
    if constexpr (is_packed<Rows>)
      return std::pair{rope<Heads>(std::move(q), rows.positions, turns),
                       rope<KvHeads>(std::move(k), rows.positions, turns)};
    else return std::pair{rope<Heads>(std::move(q), turns), rope<KvHeads>(std::move(k), turns)};
  }
  static constexpr auto normed(const optional_norm& norm, auto x, double eps) {
    if constexpr (Kind.head_norms) {
      using S = shape_of<decltype(x)>;
      const auto extents = plain(x).extents();
      return apply(op::reshape<S>{extents}, norm(reshape<-1, head>(std::move(x)), eps));
    } else {
      return x;
    }
  }
};

/// down(silu(gate(x)) * up(x)), or with gelu for silu: x [..., Width] -> [..., Width], with Hidden features between.
template <class X, index_t Width, index_t Hidden, index_t Depth = 1, bool Gelu = false>
struct gated_mlp {
  linear_without_bias<X, Width, Hidden> gate, up;
  linear_without_bias<X, Hidden, Width> down{
      linear_weight<X, Hidden, Width>{start::drawn, detail::residual_scale(Depth)}};
  GRADUS_MEMBERS(gate, up, down)

  GRADUS_OF_BUILD constexpr auto operator()(const auto& x) const {
    if constexpr (Gelu) return down(gelu(gate(x)) * up(x));
    else return down(swiglu(gate(x), up(x)));
  }
};
/// The MLP of a Llama (Shazeer 2020, arXiv 2002.05202).
template <class X, index_t Width, index_t Hidden, index_t Depth = 1>
using swiglu_mlp = gated_mlp<X, Width, Hidden, Depth>;

/// A block of a Llama: x + attention(norm(x)), then x + mlp(norm(x)); dropout on both branches. Depth is the model's
/// number of blocks, by which residual projections start smaller. With experts it maps std::tuple{x, auxiliary loss} to
/// the same, as mixture_block does.
template <class X, index_t Width, index_t Heads, index_t KvHeads, index_t Hidden, index_t Depth = 1,
          llama_kind Kind = llama_kind{}>
struct llama_block {
  using norm = rms_norm<typename detail::norms_before_products<X>::type, Width>;
  using optional_norm = std::conditional_t<Kind.branch_norms, rms_norm<X, Width>, std::tuple<>>;
  using mixed =
      mixture<X, Width, Kind.experts, Kind.experts_per_token, swiglu_experts<X, Kind.experts, Width, Hidden, Depth>>;
  norm norm1;
  rotary_attention<X, Width, Heads, KvHeads, Depth, Kind> attention;
  optional_norm after_attention;
  norm norm2;
  std::conditional_t<(Kind.experts > 0), mixed, gated_mlp<X, Width, Hidden, Depth, Kind.gelu>> mlp;
  optional_norm after_mlp;
  GRADUS_MEMBERS(norm1, attention, after_attention, norm2, mlp, after_mlp)

  /// @param drop probability of dropout on the branches
  /// @param rows which positions are a document; see packed_rows
  template <class Rows = whole_rows>
  GRADUS_OF_BUILD constexpr auto operator()(auto from, const llama_settings& with = {}, double drop = 0,
                                            const Rows& rows = {}) const {
    const auto branch = [&](const optional_norm& after, auto x) {
      return dropout(normed(after, std::move(x), with), drop);
    };
    if constexpr (Kind.experts > 0) {
      auto& [x, loss] = from;
      auto y = x + branch(after_attention, attention(norm1(x, with.norm_eps), with, rows));
      auto [z, own_loss] = mlp(norm2(y, with.norm_eps));
      return std::tuple{y + branch(after_mlp, std::move(z)), std::move(loss) + std::move(own_loss)};
    } else {
      auto y = from + branch(after_attention, attention(norm1(from, with.norm_eps), with, rows));
      return y + branch(after_mlp, mlp(norm2(y, with.norm_eps)));
    }
  }
  /// The block on new tokens that follow those in `past`, without dropout and loss.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const key_value_view<T, S, D>& past,
                                            const llama_settings& with = {}) const {
    auto y = x + normed(after_attention, attention(norm1(x, with.norm_eps), past, with), with);
    auto z = norm2(y, with.norm_eps);
    if constexpr (Kind.experts > 0) return y + normed(after_mlp, mlp.output(z), with);
    else return y + normed(after_mlp, mlp(z), with);
  }

 private:
  static constexpr auto normed(const optional_norm& norm, auto x, const llama_settings& with) {
    if constexpr (Kind.branch_norms) return norm(std::move(x), with.norm_eps);
    else return x;
  }
};

}  // namespace gradus::nn
