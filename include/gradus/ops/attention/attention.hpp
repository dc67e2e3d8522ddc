#pragma once
// Attention: its operations, shape rules and gradients, and the functions causal_attention() and attention().

#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../../tensor/creation.hpp"
#include "../elementwise/arithmetic.hpp"
#include "../matmul/matmul.hpp"
#include "../permute/permute.hpp"
#include "../reshape/reshape.hpp"
#include "../slice/slice.hpp"
#include "../softmax/softmax.hpp"

namespace gradus {

/// `flash` computes the scores tile by tile (Dao et al., "FlashAttention", 2022); `plain` stores all scores.
enum class attention_kernel { flash, plain };

/// The layout of one operand of attention: strides between batches, heads and positions, in elements. The elements of
/// one head at one position are contiguous. `data` may be null for a result that is not needed.
template <class T>
struct attention_operand {
  T* data = nullptr;
  index_t batch = 0;
  index_t head = 0;
  index_t time = 0;
  bool accumulate = false;  ///< of a result: add to the memory instead of overwriting it
};

namespace detail {

/// Layouts of queries, keys and values in an operand [batch, time, 3 width], and of a result [batch, time, width].
template <index_t Heads, class X>
struct packed_attention {
  static constexpr index_t batch = X::extent(0);
  static constexpr index_t time = X::extent(1);
  static constexpr index_t width = X::extent(2) / 3;
  static constexpr index_t depth = width / Heads;
  /// 0: queries, 1: keys, 2: values.
  template <class T>
  static attention_operand<T> part(T* data, index_t which, bool accumulate = false) {
    return {data + which * width, time * 3 * width, depth, 3 * width, accumulate};
  }
  template <class T>
  static attention_operand<T> output(T* data) {
    return {data, time * width, depth, width, false};
  }
};

template <index_t Width, index_t Parts>
inline constexpr bool width_divides = Width % Parts == 0;
template <class K, class V>
inline constexpr bool same_shape = std::is_same_v<K, V>;

/// 1 / sqrt(n); std::sqrt is not constexpr.
constexpr double inverse_square_root(index_t n) {
  const double x = static_cast<double>(n);
  double r = x;
  for (int i = 0; i < 64; ++i) r = 0.5 * (r + x / r);
  return 1 / r;
}

/// FLOPs of `products` matrix products over the scores.
constexpr std::size_t attention_flops(index_t heads, index_t queries, index_t keys, index_t depth, bool causal,
                                      std::size_t products) {
  const std::size_t scores = causal ? queries * (queries + 1) / 2 : queries * keys;
  return products * 2 * heads * scores * depth + 5 * heads * scores;
}

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// The family of all attention operations, for checkpoint policies.
struct attention {
  static constexpr std::string_view name = "attention";
};

/// softmax(q k^T / sqrt(D) + causal mask) v for packed q, k, v. Saves the log-sum-exp of each row of scores, which
/// backward recomputes.
template <index_t Heads>
struct causal_attention {
  using family = attention;
  static constexpr std::string_view name = "causal_attention";
  static constexpr op_precision precision = op_precision::low;
  static constexpr save_rule saves{1u, true};  // and the statistics: log-sum-exp [B, Heads, T]

  template <class X>
  struct dims {
    static constexpr index_t batch = X::shape::extent(0);
    static constexpr index_t time = X::shape::extent(1);
    static constexpr index_t width = X::shape::extent(2) / 3;
    static constexpr index_t depth = width / Heads;
    using output = with_shape<X, shape<batch, time, width>>;
    using statistics = tensor<compute_type<typename X::value_type>, shape<batch, Heads, time>, typename X::device>;
  };
  template <class X>
  static constexpr cost forward_cost() {
    using d = dims<X>;
    return {detail::attention_flops(d::batch * Heads, d::time, d::time, d::depth, true, 2), X::bytes, d::output::bytes};
  }
  template <class X>
  static constexpr cost backward_cost() {
    using d = dims<X>;
    return {detail::attention_flops(d::batch * Heads, d::time, d::time, d::depth, true, 5),
            X::bytes + 2 * d::output::bytes, X::bytes};
  }

  template <class Call, class X>
  constexpr auto forward(Call how, const X& qkv) const {
    using d = dims<X>;
    using Y = typename d::output;
    using S = typename d::statistics;
    auto& ctx = how.owner();
    Y y(ctx);
    if constexpr (Call::saves_statistics) {
      S lse(ctx);
      kernel<causal_attention, typename X::device>::forward(ctx, y.view(), lse.view(), qkv.view());
      return with_statistics<Y, S>{std::move(y), std::move(lse)};
    } else {
      const view<typename S::value_type, typename S::shape, typename X::device> none(nullptr);
      kernel<causal_attention, typename X::device>::forward(ctx, y.view(), none, qkv.view());
      return y;
    }
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dqkv) const {
    if (!dqkv) return;
    auto& ctx = dy.owner();
    dqkv.template write_as<typename Y::value_type>(ctx, [&](auto to) {
      kernel<causal_attention, typename X::device>::backward(ctx, to.view(), to.accumulate, std::as_const(dy).view(),
                                                             input<0>(saved).view(), output(saved).view(),
                                                             statistics(saved).view());
    });
  }
};

/// The same for separate q, k and v, [B, H, T, D]; without a mask unless Causal.
template <bool Causal>
struct scaled_attention {
  using family = attention;
  static constexpr std::string_view name = "attention";
  static constexpr op_precision precision = op_precision::low;
  static constexpr save_rule saves{7u, true};  // and the statistics: log-sum-exp [B, H, T]

  template <class Q>
  using statistics_type =
      tensor<compute_type<typename Q::value_type>, leading_shape<typename Q::shape, 3>, typename Q::device>;

  template <class Q, class K, class V>
  static constexpr cost forward_cost() {
    return {flops<Q, K>(2), Q::bytes + K::bytes + V::bytes, Q::bytes};
  }
  template <class Q, class K, class V>
  static constexpr cost backward_cost() {
    return {flops<Q, K>(5), 3 * Q::bytes + K::bytes + V::bytes, Q::bytes + K::bytes + V::bytes};
  }

  template <class Call, class Q, class K, class V>
  constexpr auto forward(Call how, const Q& q, const K& k, const V& v) const {
    using S = statistics_type<Q>;
    auto& ctx = how.owner();
    Q y(ctx);
    if constexpr (Call::saves_statistics) {
      S lse(ctx);
      kernel<scaled_attention, typename Q::device>::forward(ctx, y.view(), lse.view(), q.view(), k.view(), v.view());
      return with_statistics<Q, S>{std::move(y), std::move(lse)};
    } else {
      const view<typename S::value_type, typename S::shape, typename Q::device> none(nullptr);
      kernel<scaled_attention, typename Q::device>::forward(ctx, y.view(), none, q.view(), k.view(), v.view());
      return y;
    }
  }
  template <class Saved, class Y, class Q, class K, class V>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<Q>& dq, const gradient_sink<K>& dk,
                          const gradient_sink<V>& dv) const {
    auto& ctx = dy.owner();
    using T = typename Y::value_type;
    gradient_output<T, Q> q(ctx, dq);
    gradient_output<T, K> k(ctx, dk);
    gradient_output<T, V> v(ctx, dv);
    // If one tensor is two of the operands, both gradients accumulate in it, so neither may overwrite it.
    if (k.to.data == v.to.data) accumulate_both<K>(ctx, k.to, v.to);
    if (q.to.data == k.to.data) accumulate_both<Q>(ctx, q.to, k.to);
    if (q.to.data == v.to.data) accumulate_both<Q>(ctx, q.to, v.to);
    kernel<scaled_attention, typename Q::device>::backward(
        ctx, q.to, k.to, v.to, std::as_const(dy).view(), input<0>(saved).view(), input<1>(saved).view(),
        input<2>(saved).view(), output(saved).view(), statistics(saved).view());
    q.finish();
    k.finish();
    v.finish();
  }

 private:
  template <class Q, class K>
  static constexpr std::size_t flops(std::size_t products) {
    return gradus::detail::attention_flops(Q::shape::extent(0) * Q::shape::extent(1), Q::shape::extent(2),
                                           K::shape::extent(2), Q::shape::extent(3), Causal, products);
  }
  /// Where the kernel writes a gradient: in the sink, or in a temporary of type T that finish() converts.
  template <class T, class X>
  struct gradient_output {
    using device = typename X::device;
    static constexpr bool direct = std::is_same_v<T, typename X::value_type>;

    const gradient_sink<X>& sink;
    tensor<T, typename X::shape, device> temporary;
    attention_operand<T> to{nullptr, X::shape::stride(0), X::shape::stride(1), X::shape::stride(2), false};

    constexpr gradient_output(context<device>& ctx, const gradient_sink<X>& wanted) : sink(wanted) {
      if (!sink) return;
      if constexpr (direct) {
        auto target = sink.open(ctx);
        to.data = target.tensor.data();
        to.accumulate = target.accumulate;
      } else {
        temporary = tensor<T, typename X::shape, device>(ctx, category::temporary);
        to.data = temporary.data();
      }
    }
    constexpr void finish() const {
      if constexpr (!direct)
        if (sink) sink.give(temporary);
    }
  };
  template <class X, class T>
  static constexpr void accumulate_both(context<typename X::device>& ctx, attention_operand<T>& a,
                                        attention_operand<T>& b) {
    if (a.data == nullptr) return;
    if (!a.accumulate) device_access<typename X::device>::zero(ctx, a.data, X::size * sizeof(T));
    a.accumulate = b.accumulate = true;
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

/// [T, T]: 0 on and below the diagonal, minus infinity above it.
template <class X, index_t T>
GRADUS_OF_BUILD constexpr auto causal_mask(context<typename X::device>& ctx) {
  using element = typename X::value_type;
  std::vector<element> host(T * T, element(0.0f));
  for (index_t i = 0; i < T; ++i)
    for (index_t j = i + 1; j < T; ++j) host[i * T + j] = element(-std::numeric_limits<float>::infinity());
  return from_host<element, shape<T, T>>(ctx, host.data(), category::temporary);
}

template <index_t Heads, class X>
GRADUS_OF_BUILD constexpr auto plain_causal_attention(const X& qkv) {
  using s = shape_of<X>;
  constexpr index_t batch = s::extent(0);
  constexpr index_t time = s::extent(1);
  constexpr index_t width = s::extent(2) / 3;
  constexpr index_t depth = width / Heads;
  const auto part = [&](auto which) {
    constexpr index_t first = decltype(which)::value * width;
    return permute<0, 2, 1, 3>(reshape<batch, time, Heads, depth>(slice<2, first, width>(qkv)));
  };
  const auto q = part(std::integral_constant<index_t, 0>{});
  const auto k = part(std::integral_constant<index_t, 1>{});
  const auto v = part(std::integral_constant<index_t, 2>{});
  const auto scores = matmul<transpose{.a = false, .b = true}>(q, k) * inverse_square_root(depth);
  const auto weights = softmax(scores + causal_mask<tensor_of<X>, time>(plain(qkv).owner()));
  return reshape<batch, time, width>(permute<0, 2, 1, 3>(matmul(weights, v)));
}

}  // namespace detail

/// Causal self-attention with Heads heads: qkv [B, T, 3*C] holds queries, keys and values side by side, head h in
/// columns h*D .. (h+1)*D-1 of each, with D = C/Heads -> [B, T, C]. Scores are scaled by 1/sqrt(D).
template <index_t Heads, attention_kernel Kernel = attention_kernel::flash, operand X>
GRADUS_OF_BUILD constexpr auto causal_attention(X&& qkv) {
  using s = shape_of<X>;
  static_assert(s::rank == 3, "causal_attention<Heads>(qkv): qkv must have three axes, [B, T, 3*C]");
  if constexpr (s::rank == 3) {
    constexpr bool fits = detail::width_divides<s::extent(2), 3 * Heads>;
    static_assert(detail::width_divides<s::extent(2), 3 * Heads>,
                  "causal_attention<Heads>(qkv): the last axis of qkv must be divisible by 3 * Heads");
    if constexpr (fits && Kernel == attention_kernel::flash)
      return apply(op::causal_attention<Heads>{}, std::forward<X>(qkv));
    else if constexpr (fits) return detail::plain_causal_attention<Heads>(qkv);
  }
}

/// softmax(q k^T / sqrt(D)) v: q [B, H, T, D], k and v [B, H, S, D] -> [B, H, T, D]; `attention<true>`: causal, S = T.
template <bool Causal = false, operand Q, operand K, operand V>
GRADUS_OF_BUILD constexpr auto attention(Q&& q, K&& k, V&& v) {
  using sq = shape_of<Q>;
  using sk = shape_of<K>;
  static_assert(sq::rank == 4 && sk::rank == 4, "attention(q, k, v): q, k and v must have four axes, [B, H, T, D]");
  static_assert(detail::same_shape<sk, shape_of<V>>, "attention(q, k, v): k and v must have the same shape");
  if constexpr (sq::rank == 4 && sk::rank == 4 && std::is_same_v<sk, shape_of<V>>) {
    using expected = with_extent<sk, 2, sq::extent(2)>;
    constexpr bool fits = detail::same_shape<sq, expected> && (!Causal || sq::extent(2) == sk::extent(2));
    static_assert(detail::same_shape<sq, expected>,
                  "attention(q, k, v): q and k must have the same batch, heads and depth");
    static_assert(!Causal || detail::same_shape<sq, sk>,
                  "attention<true>(q, k, v): causal attention needs as many keys as queries");
    if constexpr (fits)
      return apply(op::scaled_attention<Causal>{}, std::forward<Q>(q), std::forward<K>(k), std::forward<V>(v));
  }
}

}  // namespace gradus
