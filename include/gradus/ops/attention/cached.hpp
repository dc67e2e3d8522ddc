#pragma once
// Causal attention of new positions to a key-value cache, for generation token by token.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/traced.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
#include "attention.hpp"

namespace gradus {

/// One layer's key-value cache, and the positions of the new entries: position .. position + count - 1.
/// @tparam Shape [B, H, S, D]: sequences, heads, capacity in positions, elements of a head
template <class T, class Shape, class D = cpu>
struct key_value_view {
  view<T, Shape, D> keys;
  view<T, Shape, D> values;
  index_t position = 0;  ///< positions in the cache
  index_t count = 0;     ///< new positions
};

namespace op::inline GRADUS_BUILD {

/// Causal attention of new positions, which appends their keys and values to the cache. Has no gradient.
/// @tparam Rules only_causal<true> or attention_rules<C>
template <index_t Depth, class Rules>
struct cached_attention {
  using family = attention;
  static constexpr std::string_view name = "cached_attention";
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

template <class QkvShape, class PastShape, index_t Heads>
inline constexpr bool fits_the_past =
    std::is_same_v<shape<QkvShape::extent_in_type(0), QkvShape::extent_in_type(2), Heads>,
                   shape<PastShape::extent(0), 3 * PastShape::extent(1) * PastShape::extent(3), PastShape::extent(1)>>;
template <class QShape, class KShape, class PastShape, index_t Heads>
inline constexpr bool separate_fits_the_past =
    heads_share<Heads, PastShape::extent(1)> && QShape::extent_in_type(0) == PastShape::extent(0) &&
    QShape::extent_in_type(2) == Heads * PastShape::extent(3) &&
    std::is_same_v<KShape,
                   shape<PastShape::extent(0), QShape::extent_in_type(1), PastShape::extent(1) * PastShape::extent(3)>>;
template <class Wanted, class Found>
inline constexpr bool same_element_type = std::is_same_v<Wanted, Found>;
[[noreturn]] inline void fail_past(bool packed, index_t position, index_t count, index_t time, index_t context) {
  throw error((packed ? "causal_attention(qkv, past): " : "attention(q, k, v, past): ") + std::to_string(count) +
              " new positions do not fit after the " + std::to_string(position) + " cached ones: the cache holds " +
              std::to_string(context) + ", and " + (packed ? "qkv" : "q") + " has " + std::to_string(time) +
              " positions");
}

/// New queries, keys and values, and the caches, as kernels take them. Extents: `queries` and `keys` of sizes are the
/// times of q and the capacity.
template <class T>
struct cached_operands {
  attention_operand<const T> q, k, v;
  attention_operand<T> past_keys, past_values;
  index_t position, count;
};

/// Attention of new positions; x is q, or packed.
template <class Rules, class Y, class X, class T, class S, class D>
GRADUS_OF_BUILD constexpr Y attend_to_past(const X& x, const Rules& rules, const attention_sizes& sizes,
                                           cached_operands<T> operands, const key_value_view<T, S, D>& past,
                                           const extents_of<typename Y::shape>& extents, std::size_t bytes) {
  if (past.count > sizes.queries || past.position > sizes.keys || past.count > sizes.keys - past.position)
    fail_past(!std::is_same_v<X, Y>, past.position, past.count, sizes.queries, sizes.keys);
  constexpr index_t depth = S::extent(3);
  auto& ctx = x.owner();
  const std::size_t kept = 2 * sizes.batch * sizes.kv_heads * depth * (past.position + past.count) * sizeof(T);
  const std::size_t seen = past.count * past.position + past.count * (past.count + 1) / 2;
  const typename context<D>::running now(
      ctx, activity{op::cached_attention<depth, Rules>::name,
                    ctx.current().phase,
                    {(4 * depth + 5) * sizes.batch * sizes.heads * seen, bytes + kept, bytes}});
  Y y(ctx, extents);
  const auto in_cache = [](T* data) {
    return attention_operand<T>{data, S::stride(0), S::stride(1), S::stride(2), false};
  };
  operands.past_keys = in_cache(past.keys.data());
  operands.past_values = in_cache(past.values.data());
  operands.position = past.position;
  operands.count = past.count;
  kernel<op::cached_attention<depth, Rules>, D>::forward(
      ctx, sizes, rules, attention_layout<typename Y::shape, depth>{extents}.at(y.data()), operands);
  y.storage().mark(x.storage().origin());
  return y;
}

}  // namespace detail

/// causal_attention<Heads> of new positions: qkv [B, T, 3*H*D] -> [B, T, H*D]. The first past.count positions of qkv
/// are new, the other rows of the output zero. Writes the new keys and values into the cache, which then advances.
///
/// Row t equals row past.position + t of causal_attention of [B, S, 3*H*D], on the CPU bit for bit. Inference only: a
/// recorded qkv does not compile. Throws gradus::error if the cache is too small for the new positions.
template <index_t Heads, operand X, class T, class S, class D>
GRADUS_OF_BUILD constexpr auto causal_attention(X&& qkv, const key_value_view<T, S, D>& past) {
  using raw = std::remove_cvref_t<X>;
  using Q = tensor_of<X>;
  GRADUS_REQUIRE("causal_attention<Heads>(qkv, past): a cache is for inference only; qkv must not be recorded",
                 !is_traced<raw>)
  GRADUS_REQUIRE(
      "causal_attention<Heads>(qkv, past): qkv must have three axes, [B, T, 3*H*D], and the past four, [B, H, S, D]",
      S::rank == 4 && Q::rank == 3)
  GRADUS_REQUIRE("causal_attention<Heads>(qkv, past): the past must hold the element type of qkv",
                 detail::same_element_type<T, typename Q::value_type>)
  GRADUS_REQUIRE(
      "causal_attention<Heads>(qkv, past): qkv [B, T, 3*H*D] must have the past's [B, H, S, D] sequences, heads and "
      "numbers of a head",
      detail::fits_the_past<typename Q::shape, S, Heads>)
  {
    const Q& x = plain(qkv);
    const detail::packed_attention<Heads, typename Q::shape> packed(x.extents());
    using Y = with_shape<Q, with_extent<typename Q::shape, 2, packed.width>>;
    const auto part = [&](index_t which) { return packed.part(x.data(), which); };
    return detail::attend_to_past<only_causal<true>, Y>(
        x, {}, {packed.batch, Heads, Heads, packed.time, S::extent(2)},
        detail::cached_operands<T>{part(0), part(1), part(2), {}, {}, 0, 0}, past,
        replaced_extents<2, packed.width>(x.extents(), packed.width), Q::bytes);
  }
}

namespace detail {

template <index_t Heads, class Rules, class Q, class K, class V, class T, class S, class D>
GRADUS_OF_BUILD constexpr auto attend_to_past_of(const Q& q, const K& k, const V& v,
                                                 const key_value_view<T, S, D>& past, const Rules& rules,
                                                 const attention_sizes& sizes) {
  const attention_layout<typename Q::shape, S::extent(3)> queries{q.extents()};
  const attention_layout<typename K::shape, S::extent(3)> keys{k.extents()};
  return attend_to_past<Rules, Q>(
      q, rules, sizes, cached_operands<T>{queries.at(q.data()), keys.at(k.data()), keys.at(v.data()), {}, {}, 0, 0},
      past, q.extents(), Q::bytes + K::bytes + V::bytes);
}
template <index_t Heads, class Q, class K, class V, class T, class S>
constexpr bool check_separate_past() {
  GRADUS_REQUIRE("attention<Heads>(q, k, v, past): a cache is for inference only; operands must not be recorded",
                 !is_traced<Q> && !is_traced<K> && !is_traced<V>)
  GRADUS_REQUIRE("attention<Heads>(q, k, v, past): the past must hold the element type of q, k and v",
                 same_element_type<T, value_of_t<Q>> && same_element_type<T, value_of_t<K>>)
  GRADUS_REQUIRE("attention<Heads>(q, k, v, past): q must have three axes, [B, T, Heads*D], and the past four",
                 shape_of<Q>::rank == 3 && S::rank == 4)
  GRADUS_REQUIRE(
      "attention<Heads>(q, k, v, past): for a past [B, H, S, D], q must be [B, T, Heads*D], k and v "
      "[B, T, H*D], and Heads a multiple of H",
      separate_fits_the_past<shape_of<Q>, shape_of<K>, S, Heads> && same_shape<shape_of<K>, shape_of<V>>)
  { return true; }
  return false;
}

}  // namespace detail

/// Attention of new positions to a cache with H heads, each of which serves Heads / H adjacent heads of q: q [B, T,
/// Heads*D], k and v [B, T, H*D] -> [B, T, Heads*D]. The first past.count positions are new, as in
/// causal_attention(qkv, past), with the same errors.
template <index_t Heads, operand Q, operand K, operand V, class T, class S, class D>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v, const key_value_view<T, S, D>& past) {
  if constexpr (detail::check_separate_past<Heads, std::remove_cvref_t<Q>, std::remove_cvref_t<K>,
                                            std::remove_cvref_t<V>, T, S>())
    return detail::attend_to_past_of<Heads>(plain(q), plain(k), plain(v), past, only_causal<true>{},
                                            {S::extent(0), Heads, S::extent(1), plain(q).extent(1), S::extent(2)});
}
/// Attention of new positions to a cache with options: scale, window, and key_lengths [B], mask [B, S] and documents
/// [B, S, 2] of positions in the cache. Always causal. q [B, T, Heads*D], k and v [B, T, H*D] -> [B, T, Heads*D].
template <index_t Heads, operand Q, operand K, operand V, class T, class S, class D>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v, const key_value_view<T, S, D>& past,
                                         attention_options<D> options) {
  if constexpr (detail::check_separate_past<Heads, std::remove_cvref_t<Q>, std::remove_cvref_t<K>,
                                            std::remove_cvref_t<V>, T, S>()) {
    constexpr index_t capacity = S::extent(2);
    detail::check_attention_options(options, S::extent(0), capacity, capacity);
    options.causal = true;
    options.dropout = 0;
    const attention_sizes sizes{S::extent(0), Heads, S::extent(1), plain(q).extent(1), capacity};
    const auto rules = detail::rules_of<compute_type<T>, S::extent(3)>(
        options, {sizes.batch, Heads, sizes.kv_heads, capacity, capacity}, {});  // query i is at position i
    return detail::attend_to_past_of<Heads>(plain(q), plain(k), plain(v), past, rules, sizes);
  }
}

}  // namespace gradus
