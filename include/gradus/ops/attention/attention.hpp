#pragma once
// The functions causal_attention() and attention(), which compute scores tile by tile (Dao et al., "FlashAttention",
// 2022).

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../comparison/comparison.hpp"
#include "operations.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {

/// The operation Op with `options`: dropout is for recorded operands.
template <class Op, class D, class... X>
constexpr Op with_draws(const attention_options<D>& options, const X&... x) {
  Op how{options, {}};
  using recorder = typename recorder_of<X...>::type;
  if constexpr (std::is_void_v<recorder>) how.options.dropout = 0;
  else if (options.dropout > 0) how.key = find_recorder<recorder>(x...).next_key();
  return how;
}
template <index_t Width, index_t Parts>
inline constexpr bool width_divides = Parts > 0 && Width % (Parts > 0 ? Parts : 1) == 0;
template <class K, class V>
inline constexpr bool same_shape = std::is_same_v<K, V>;

template <index_t Heads, class S>
constexpr bool check_packed_attention() {
  GRADUS_REQUIRE("causal_attention<Heads>(qkv): qkv must have three axes, [B, T, 3*C]", S::rank == 3)
  GRADUS_REQUIRE("causal_attention<Heads>(qkv): only the batch and the time may be upto<N>",
                 axis_is_not_bounded<S::extent_in_type(2)>)
  GRADUS_REQUIRE("causal_attention<Heads>(qkv): the last axis of qkv must be divisible by 3 * Heads",
                 width_divides<S::extent(2), 3 * Heads>)
  { return true; }
  return false;
}

}  // namespace detail

/// Causal self-attention with Heads heads: qkv [B, T, 3*C] holds queries, keys and values side by side, head h in
/// columns h*D .. (h+1)*D-1 of each, with D = C/Heads -> [B, T, C]. Scores are scaled by 1/sqrt(D).
template <index_t Heads, operand X>
GRADUS_OF_BUILD constexpr auto causal_attention(X&& qkv) {
  if constexpr (detail::check_packed_attention<Heads, shape_of<X>>())
    return apply(op::causal_attention<Heads>{}, std::forward<X>(qkv));
}

/// causal_attention with the options of attention(q, k, v, options): `causal_attention<12>(qkv, {.documents = d})`.
template <index_t Heads, operand X>
GRADUS_OF_BUILD constexpr auto causal_attention(X&& qkv, attention_options<typename tensor_of<X>::device> options) {
  if constexpr (detail::check_packed_attention<Heads, shape_of<X>>()) {
    options.causal = true;
    const index_t times = plain(qkv).extent(1);
    detail::check_attention_options(options, plain(qkv).extent(0), times, times);
    using how = op::causal_attention<Heads, decltype(options)>;
    return apply(detail::with_draws<how>(options, qkv), std::forward<X>(qkv));
  }
}

namespace detail {

/// How attention<How>(q, k, v) is called: Heads of operands [B, T, H*D]; or, if How is a bool, operands [B, H, T, D].
template <auto How, class Q>
struct attention_form {
  static constexpr bool by_axis = std::is_same_v<decltype(How), bool>;
  static constexpr index_t rank = by_axis ? 4 : 3;
  static constexpr index_t heads = [] {
    if constexpr (!by_axis) return static_cast<index_t>(How);
    else if constexpr (Q::rank == 4) return Q::extent(1);
    else return index_t{1};
  }();
};

template <index_t Heads, index_t HeadsOfKeys>
inline constexpr bool heads_share = HeadsOfKeys > 0 && Heads % HeadsOfKeys == 0;
/// Shape of queries that fit the keys.
template <class Q, class K>
using fitting_queries =
    std::conditional_t<heads_share<Q::extent_in_type(1), K::extent_in_type(1)>,
                       with_extent<with_extent<K, 2, Q::extent_in_type(2)>, 1, Q::extent_in_type(1)>,
                       with_extent<K, 2, Q::extent_in_type(2)>>;
template <index_t B, index_t BOfKeys>
inline constexpr bool same_batch = B == BOfKeys;

/// Checks shapes of operands [B, H, T, D]; true if they fit.
template <class Q, class K>
constexpr bool check_attention_by_axis() {
  GRADUS_REQUIRE("attention(q, k, v): q and k must have the same batch, heads and depth, or q a multiple of k's heads",
                 same_shape<Q, fitting_queries<Q, K>>)
  { return true; }
  return false;
}
/// Checks shapes of operands [B, T, H*D]; true if they fit.
template <index_t Heads, class Q, class K>
constexpr bool check_attention_by_columns() {
  constexpr index_t width = Q::extent_in_type(2), depth = Heads == 0 ? 1 : width / Heads;
  GRADUS_REQUIRE("attention<Heads>(q, k, v): the last axis of q must be divisible by Heads",
                 width_divides<width, Heads>)
  GRADUS_REQUIRE("attention<Heads>(q, k, v): q and k must have the same batch",
                 same_batch<Q::extent_in_type(0), K::extent_in_type(0)>)
  GRADUS_REQUIRE("attention<Heads>(q, k, v): the last axis of k and v must be divisible by the depth of q's heads",
                 width_divides<K::extent_in_type(2), depth>)
  GRADUS_REQUIRE("attention<Heads>(q, k, v): Heads must be a multiple of the heads of k and v",
                 heads_share<Heads, K::extent_in_type(2) / depth>)
  { return true; }
  return false;
}
template <bool ByAxis, index_t Heads, class Q, class K>
constexpr bool check_attention_sizes() {
  constexpr index_t heads = ByAxis ? 1 : 2;  // and depth
  GRADUS_REQUIRE("attention(q, k, v): only the batch and the numbers of queries and keys may be upto<N>",
                 axis_is_not_bounded<Q::extent_in_type(heads)> && axis_is_not_bounded<K::extent_in_type(heads)> &&
                     axis_is_not_bounded<Q::extent_in_type(-1)> && axis_is_not_bounded<K::extent_in_type(-1)>)
  {
    if constexpr (ByAxis) return check_attention_by_axis<Q, K>();
    else return check_attention_by_columns<Heads, Q, K>();
  }
  return false;
}
template <auto How, class Q, class K, class V>
constexpr bool check_attention() {
  using form = attention_form<How, Q>;
  constexpr bool ranks = Q::rank == form::rank && K::rank == form::rank;
  GRADUS_REQUIRE("attention(q, k, v): q, k and v must have four axes, [B, H, T, D]", ranks || !form::by_axis)
  GRADUS_REQUIRE("attention<Heads>(q, k, v): q, k and v must have three axes, [B, T, H*D]", ranks)
  GRADUS_REQUIRE("attention(q, k, v): k and v must have the same shape", same_shape<K, V>)
  { return check_attention_sizes<form::by_axis, form::heads, Q, K>(); }
  return false;
}
/// The first operand that is recorded, or else q.
template <class Q, class K, class V>
constexpr const auto& first_recorded(const Q& q, [[maybe_unused]] const K& k, [[maybe_unused]] const V& v) {
  if constexpr (is_traced<Q> || (!is_traced<K> && !is_traced<V>)) return q;
  else if constexpr (is_traced<K>) return k;
  else return v;
}
/// Whether several heads of queries use one of keys.
template <auto How, class Q, class K>
inline constexpr bool share_keys = attention_form<How, Q>::by_axis ? Q::extent_in_type(1) != K::extent_in_type(1)
                                                                   : Q::extent_in_type(2) != K::extent_in_type(2);
template <class Bias, index_t Batch, index_t Heads, index_t Queries, index_t Keys>
constexpr bool bias_fits() {
  if constexpr (Bias::rank != 4) return false;
  else
    return (Bias::extent_in_type(0) == 1 || Bias::extent_in_type(0) == Batch) &&
           (Bias::extent_in_type(1) == 1 || Bias::extent_in_type(1) == Heads) && Bias::extent_in_type(2) == Queries &&
           Bias::extent_in_type(3) == Keys;
}
template <class Bias, index_t Batch, index_t Heads, index_t Queries, index_t Keys>
inline constexpr bool bias_is_1_or_batch_by_1_or_heads_by_queries_by_keys =
    bias_fits<Bias, Batch, Heads, Queries, Keys>();

template <auto How, class D, class Q, class K, class V, class... Bias>
GRADUS_OF_BUILD constexpr auto attend_with(attention_options<D> options, Q&& q, K&& k, V&& v, Bias&&... bias) {
  using sq = shape_of<Q>;
  if constexpr (attention_form<How, sq>::by_axis) options.causal = options.causal || How;
  check_attention_options(options, plain(q).extent(0), plain(q).extent(-2), plain(k).extent(-2));
  constexpr index_t heads = attention_form<How, sq>::heads;
  const auto how = with_draws<op::scaled_attention<heads, attention_options<D>>>(options, q, k, v, bias...);
  return apply(how, std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v), std::forward<Bias>(bias)...);
}

}  // namespace detail

/// Attention with Heads heads: softmax(q k^T / sqrt(D)) v for q [B, Tq, Heads*D] and k, v [B, Tk, H*D], whose heads are
/// each shared by Heads / H adjacent heads of q -> [B, Tq, Heads*D].
///
/// Without Heads: q [B, Hq, Tq, D], k and v [B, H, Tk, D] -> [B, Hq, Tq, D]; `attention<true>` is causal, Tk = Tq.
template <auto Heads = false, operand Q, operand K, operand V>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v) {
  using sq = shape_of<Q>;
  using sk = shape_of<K>;
  constexpr bool causal = std::is_same_v<decltype(Heads), bool> && Heads;
  if constexpr (detail::check_attention<Heads, sq, sk, shape_of<V>>()) {
    GRADUS_REQUIRE("attention<true>(q, k, v): causal attention needs as many keys as queries",
                   !causal || detail::same_shape<sq, sk>)
    if constexpr (detail::share_keys<Heads, sq, sk>)
      return detail::attend_with<Heads>(attention_options<typename tensor_of<Q>::device>{}, std::forward<Q>(q),
                                        std::forward<K>(k), std::forward<V>(v));
    else
      return apply(op::scaled_attention<detail::attention_form<Heads, sq>::heads, only_causal<causal>>{},
                   std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v));
  }
}

/// Attention with options, of the shapes of attention(q, k, v):
/// `attention<8>(q, k, v, {.causal = true, .window = 256})`. Scores are never stored: forward and backward compute them
/// in tiles, and skip tiles that are wholly masked. Throws gradus::error if an option does not fit, before anything is
/// written; lengths and documents out of range are clamped where the host cannot read them.
template <auto Heads = false, operand Q, operand K, operand V>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v,
                                         const attention_options<typename tensor_of<Q>::device>& options) {
  if constexpr (detail::check_attention<Heads, shape_of<Q>, shape_of<K>, shape_of<V>>())
    return detail::attend_with<Heads>(options, std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v));
}

/// Attention with a bias [1 or B, 1 or Heads, Tq, Tk], which is added to the scaled products q k^T, and has a gradient
/// (relative positions; ALiBi, Press et al. 2022). Minus infinity masks. A bool tensor of that shape is a mask: queries
/// attend to keys with true. `options` as in attention(q, k, v, options).
template <auto Heads = false, operand Q, operand K, operand V, operand Bias>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v, Bias&& bias,
                                         const attention_options<typename tensor_of<Q>::device>& options = {}) {
  using sq = shape_of<Q>;
  using sk = shape_of<K>;
  if (options.cap != 0) detail::attention_rejects("cap is for attention without a bias");
  if constexpr (detail::check_attention<Heads, sq, sk, shape_of<V>>()) {
    using form = detail::attention_form<Heads, sq>;
    using C = compute_type<value_of_t<Q>>;  // the kernels add the bias in it
    GRADUS_REQUIRE(
        "attention(q, k, v, bias): bias must be [1 or B, 1 or heads, Tq, Tk]",
        detail::bias_is_1_or_batch_by_1_or_heads_by_queries_by_keys<shape_of<Bias>, sq::extent_in_type(0), form::heads,
                                                                    sq::extent_in_type(form::rank - 2),
                                                                    sk::extent_in_type(form::rank - 2)>)
    if constexpr (std::is_same_v<value_of_t<Bias>, bool>)
      return attention<Heads>(std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v),
                              where(bias, 0.0, -std::numeric_limits<double>::infinity()), options);
    else if constexpr (std::is_same_v<value_of_t<Bias>, C>)
      return detail::attend_with<Heads>(options, std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v),
                                        std::forward<Bias>(bias));
    else if constexpr (is_param<std::remove_cvref_t<Bias>>)
      return attention<Heads>(std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v),
                              cast<C>(watch(bias, detail::first_recorded(q, k, v))), options);
    else
      return attention<Heads>(std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v),
                              cast<C>(std::forward<Bias>(bias)), options);
  }
}

}  // namespace gradus
