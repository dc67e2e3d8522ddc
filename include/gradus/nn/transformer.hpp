#pragma once
// Attention, MLP and block of a GPT-2 transformer.

#include <type_traits>

#include "../core/config.hpp"
#include "../ops/attention/attention.hpp"
#include "../ops/attention/cached.hpp"
#include "../ops/dropout/dropout.hpp"
#include "layers.hpp"
#include "packed_rows.hpp"

namespace gradus::nn {

namespace detail {
constexpr double square_root(double x) {  // std::sqrt is not constexpr
  double r = x > 1 ? x : 1;
  for (int i = 0; i < 64; ++i) r = 0.5 * (r + x / r);
  return r;
}
/// The factor of residual projections' initial deviation, 1/sqrt(2 * depth), with which the residual stream does not
/// grow with depth (GPT-2).
constexpr double residual_scale(index_t depth) { return 1 / square_root(2.0 * static_cast<double>(depth)); }
/// The X of norms that feed a matmul: they output its compute type directly. Same numbers, one pass fewer.
template <class X>
struct norms_before_products {
  using policy = typename X::precision;
  using in_products = on<typename X::device, precision_with<policy, in_low<op::layer_norm, op::rms_norm>>>;
  static constexpr bool casts = !std::is_same_v<typename policy::compute, typename policy::reduce> &&
                                policy::template list_of<op::linear>(op::linear::precision) == op_precision::low;
  using type = std::conditional_t<casts, in_products, X>;
};
template <index_t Heads, index_t Width>
inline constexpr bool heads_divide_width = Width % Heads == 0;
}  // namespace detail

/// Causal self-attention with Heads heads: x [B, T, Width] -> [B, T, Width].
template <class X, index_t Width, index_t Heads, index_t Depth = 1>
struct attention {
  static_assert(detail::heads_divide_width<Heads, Width>,
                "attention<X, Width, Heads>: Width must be divisible by Heads");
  linear<X, Width, 3 * Width> qkv;
  linear<X, Width, Width> projection{
      .weight = linear_weight<X, Width, Width>{start::drawn, detail::residual_scale(Depth)}, .bias = {}};
  GRADUS_MEMBERS(qkv, projection)

  /// @param rows which positions of x are a document; see packed_rows
  template <class Rows = whole_rows>
  GRADUS_OF_BUILD constexpr auto operator()(auto&& x, [[maybe_unused]] const Rows& rows = {}) const {
    auto packed = qkv(std::forward<decltype(x)>(x));
    if constexpr (is_packed<Rows>)
      return projection(causal_attention<Heads>(std::move(packed), {.documents = rows.documents}));
    else return projection(causal_attention<Heads>(std::move(packed)));
  }
  /// Attention of new tokens x [B, T, Width] that follow those in `past`: see causal_attention(qkv, past).
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(auto&& x, const key_value_view<T, S, D>& past) const {
    return projection(causal_attention<Heads>(qkv(std::forward<decltype(x)>(x)), past));
  }
};

/// linear, GELU, linear: x [..., Width] -> [..., Width], with 4 * Width features between.
template <class X, index_t Width, index_t Depth = 1>
struct mlp {
  linear<X, Width, 4 * Width> up;
  linear<X, 4 * Width, Width> down{
      .weight = linear_weight<X, 4 * Width, Width>{start::drawn, detail::residual_scale(Depth)}, .bias = {}};
  GRADUS_MEMBERS(up, down)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const { return down(gelu(up(std::forward<decltype(x)>(x)))); }
};

/// A pre-norm transformer block (GPT-2): x + attention(norm(x)), then x + mlp(norm(x)); dropout on both branches.
template <class X, index_t Width, index_t Heads, index_t Depth = 1>
struct block {
  using norm = layer_norm<typename detail::norms_before_products<X>::type, Width>;
  norm norm1;
  nn::attention<X, Width, Heads, Depth> attention;
  norm norm2;
  nn::mlp<X, Width, Depth> mlp;
  GRADUS_MEMBERS(norm1, attention, norm2, mlp)

  /// @param rows which positions are a document; see packed_rows
  template <class Rows = whole_rows>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, double drop = 0, const Rows& rows = {}) const {
    auto y = x + dropout(attention(norm1(x), rows), drop);
    return y + dropout(mlp(norm2(y)), drop);
  }
  /// The block on new tokens that follow those in `past`, without dropout.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const key_value_view<T, S, D>& past) const {
    auto y = x + attention(norm1(x), past);
    return y + mlp(norm2(y));
  }
};

}  // namespace gradus::nn
