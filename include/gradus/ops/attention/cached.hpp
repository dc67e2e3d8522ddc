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

/// causal_attention of new positions, which appends their keys and values to the cache. Has no gradient.
template <index_t Heads>
struct cached_attention {
  using family = attention;
  static constexpr std::string_view name = "cached_attention";
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

template <class QkvShape, class PastShape, index_t Heads>
inline constexpr bool fits_the_past =
    std::is_same_v<shape<QkvShape::extent(0), QkvShape::extent(2), Heads>,
                   shape<PastShape::extent(0), 3 * PastShape::extent(1) * PastShape::extent(3), PastShape::extent(1)>>;
template <class Wanted, class Found>
inline constexpr bool same_element_type = std::is_same_v<Wanted, Found>;
[[noreturn]] inline void fail_past(index_t position, index_t count, index_t time, index_t context) {
  throw error("causal_attention(qkv, past): " + std::to_string(count) + " new positions do not fit after the " +
              std::to_string(position) + " cached ones: the cache holds " + std::to_string(context) + ", and qkv has " +
              std::to_string(time) + " positions");
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
  static_assert(!is_traced<raw>,
                "causal_attention<Heads>(qkv, past): a cache is for inference only; qkv must not be recorded");
  static_assert(
      S::rank == 4 && Q::rank == 3,
      "causal_attention<Heads>(qkv, past): qkv must have three axes, [B, T, 3*H*D], and the past four, [B, H, S, D]");
  static_assert(detail::same_element_type<T, typename Q::value_type>,
                "causal_attention<Heads>(qkv, past): the past must hold the element type of qkv");
  if constexpr (!is_traced<raw> && S::rank == 4 && Q::rank == 3) {
    constexpr bool fits = detail::fits_the_past<typename Q::shape, S, Heads>;
    static_assert(
        detail::fits_the_past<typename Q::shape, S, Heads>,
        "causal_attention<Heads>(qkv, past): qkv [B, T, 3*H*D] must have the past's [B, H, S, D] sequences, heads and "
        "numbers of a head");
    if constexpr (fits && std::is_same_v<T, typename Q::value_type>) {
      constexpr index_t batch = S::extent(0), time = Q::shape::extent(1), width = Heads * S::extent(3);
      if (past.count > time || past.position > S::extent(2) || past.count > S::extent(2) - past.position)
        detail::fail_past(past.position, past.count, time, S::extent(2));
      const Q& x = plain(qkv);
      auto& ctx = x.owner();
      const std::size_t kept = 2 * batch * width * (past.position + past.count) * sizeof(T);
      const std::size_t seen = past.count * past.position + past.count * (past.count + 1) / 2;
      const typename context<D>::running now(
          ctx, activity{op::cached_attention<Heads>::name,
                        ctx.current().phase,
                        {(4 * S::extent(3) + 5) * batch * Heads * seen, Q::bytes + kept, Q::bytes}});
      with_shape<Q, shape<batch, time, width>> y(ctx);
      kernel<op::cached_attention<Heads>, D>::forward(ctx, y.view(), x.view(), past);
      y.storage().mark(x.storage().origin());
      return y;
    }
  }
}

}  // namespace gradus
