#pragma once
// Attention: its operations, their costs and gradients.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {

/// Layouts of queries, keys and values in an operand [batch, time, 3 width], and of a result [batch, time, width].
template <index_t Heads, class S>
struct packed_attention {
  static constexpr index_t width = S::extent(2) / 3;
  static constexpr index_t depth = width / Heads;
  index_t batch, time;
  constexpr explicit packed_attention(const extents_of<S>& of) : batch(of.extents[0]), time(of.extents[1]) {}
  constexpr attention_sizes sizes() const { return {batch, Heads, Heads, time, time}; }
  /// 0: queries, 1: keys, 2: values.
  template <class T>
  constexpr attention_operand<T> part(T* data, index_t which, bool accumulate = false) const {
    return {data == nullptr ? nullptr : data + which * width, time * 3 * width, depth, 3 * width, accumulate};
  }
  template <class T>
  constexpr attention_operand<T> output(T* data) const {
    return {data, time * width, depth, width, false};
  }
};

/// The layout of an operand [B, T, H*Depth] or [B, H, T, Depth].
template <class S, index_t Depth>
struct attention_layout {
  static constexpr bool by_axis = S::rank == 4;
  [[no_unique_address]] extents_of<S> of;
  constexpr index_t batch() const { return of.extent(0); }
  constexpr index_t time() const { return of.extent(by_axis ? 2 : 1); }
  constexpr index_t heads() const { return by_axis ? of.extent(1) : of.extent(2) / Depth; }
  template <class T>
  constexpr attention_operand<T> at(T* data, bool accumulate = false) const {
    return {data, of.stride(0), by_axis ? of.stride(1) : Depth, of.stride(by_axis ? 2 : 1), accumulate};
  }
};

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

/// The kernels of attention with heads of Depth elements: of all forms, on strided operands.
/// @tparam Rules only_causal<...> or attention_rules<C>
template <index_t Depth, class Rules>
struct attention_pass {};

/// softmax(q k^T / sqrt(D) + causal mask) v for packed q, k, v. Saves the log-sum-exp of each row of scores, which
/// backward recomputes.
/// @tparam Options only_causal<true> or attention_options<D>
template <index_t Heads, class Options = only_causal<true>>
struct causal_attention {
  using family = attention;
  static constexpr std::string_view name = "causal_attention";
  static constexpr op_precision precision = op_precision::low;
  static constexpr save_rule saves{1u, true};  // and the statistics: log-sum-exp [B, Heads, T]

  Options options;
  random_key key;  ///< of dropout

  template <class X>
  using dims = gradus::detail::packed_attention<Heads, typename X::shape>;
  template <class X>
  using output_type = with_shape<X, with_extent<typename X::shape, 2, dims<X>::width>>;
  template <class X>
  using number = compute_type<typename X::value_type>;
  template <class X>
  using pass = kernel<attention_pass<dims<X>::depth, decltype(gradus::detail::rules_of<number<X>, dims<X>::depth>(
                                                         Options{}, attention_sizes{}, random_key{}))>,
                      typename X::device>;

  template <class X>
  static constexpr flop_counts flops() {
    return {flops_of<X>(2), flops_of<X>(5)};
  }

  template <class Call, class X>
  constexpr auto forward(Call how, const X& qkv) const {
    using C = number<X>;
    using S = tensor<C, shape<X::shape::extent(0), Heads, X::shape::extent(1)>, typename X::device>;
    const dims<X> d(qkv.extents());
    auto& ctx = how.owner();
    output_type<X> y(ctx, replaced_extents<2, d.width>(qkv.extents(), d.width));
    const auto rules = gradus::detail::rules_of<C, d.depth>(options, d.sizes(), key);
    const auto run = [&](C* lse) {
      pass<X>::forward(ctx, d.sizes(), rules, d.output(y.data()), lse, d.part(qkv.data(), 0), d.part(qkv.data(), 1),
                       d.part(qkv.data(), 2));
    };
    return with_optional_statistics<S>(how, y, run);
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dqkv) const {
    if (!dqkv) return;
    const dims<X> d(dqkv.extents());
    using T = typename Y::value_type;
    auto& ctx = dy.owner();
    dqkv.template write_as<T>(ctx, [&](auto to) {
      const auto& qkv = input<0>(saved);
      const auto gradient = [&](index_t which) { return d.part(to.tensor.data(), which, to.accumulate); };
      pass<X>::backward(ctx, d.sizes(), gradus::detail::rules_of<compute_type<T>, d.depth>(options, d.sizes(), key),
                        attention_results<compute_type<T>, T>{gradient(0), gradient(1), gradient(2)},
                        attention_inputs<compute_type<T>, T>{d.output(std::as_const(dy).data()), d.part(qkv.data(), 0),
                                                             d.part(qkv.data(), 1), d.part(qkv.data(), 2),
                                                             d.output(output(saved).data()), statistics(saved).data()});
    });
  }

 private:
  template <class X>
  static constexpr std::size_t flops_of(std::size_t products) {
    using S = typename X::shape;
    return gradus::detail::attention_flops(S::extent(0) * Heads, S::extent(1), S::extent(1), dims<X>::depth, true,
                                           products);
  }
};

/// Attention for separate q, k and v, [B, T, H*D] or [B, H, T, D], and maybe a bias [1 or B, 1 or H, Tq, Tk].
/// @tparam Heads   of the queries
/// @tparam Options only_causal<...> or attention_options<D>
template <index_t Heads, class Options>
struct scaled_attention {
  using family = attention;
  static constexpr std::string_view name = "attention";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 7u;
  static constexpr save_rule saves{15u, true};  // and the statistics: log-sum-exp [B, H, Tq]

  Options options;
  random_key key;  ///< of dropout

  template <class Q, class K, class V, class... Bias>
  static constexpr flop_counts flops() {
    return {flops_of<Q, K>(2), flops_of<Q, K>(5 + 2 * sizeof...(Bias))};
  }

  template <class Call, class Q, class K, class V, class... Bias>
  constexpr auto forward(Call how, const Q& q, const K& k, const V& v, const Bias&... bias) const {
    using p = problem<Q, K>;
    using C = typename p::number;
    using S = tensor<C, shape<Q::shape::extent(0), Heads, p::queries_in(typename Q::shape{})>, typename Q::device>;
    const p at(q.extents(), k.extents());
    at.check(v.extents(), bias.extents()...);
    auto& ctx = how.owner();
    Q y(ctx, q.extents());
    const auto rules = at.rules(*this, bias...);
    const auto run = [&](C* lse) {
      p::pass::forward(ctx, at.sizes, rules, at.queries.at(y.data()), lse, at.queries.at(q.data()),
                       at.keys.at(k.data()), at.keys.at(v.data()));
    };
    return with_optional_statistics<S>(how, y, run);
  }
  template <class Saved, class Y, class Q, class K, class V, class... Bias>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<Q>& dq, const gradient_sink<K>& dk,
                          const gradient_sink<V>& dv, const gradient_sink<Bias>&... dbias) const {
    using p = problem<Y, K>;
    using T = typename Y::value_type;
    using C = typename p::number;
    const p at(dy.extents(), dk.extents());
    auto& ctx = dy.owner();
    gradient_output<T, Q> q(ctx, dq, at.queries.at(static_cast<T*>(nullptr)));
    gradient_output<T, K> k(ctx, dk, at.keys.at(static_cast<T*>(nullptr)));
    gradient_output<T, V> v(ctx, dv, at.keys.at(static_cast<T*>(nullptr)));
    // If one tensor is two of the operands, both gradients accumulate in it, so neither may overwrite it.
    if (k.to.data == v.to.data) accumulate_both<K>(ctx, k.to, v.to);
    if (q.to.data == k.to.data) accumulate_both<Q>(ctx, q.to, k.to);
    if (q.to.data == v.to.data) accumulate_both<Q>(ctx, q.to, v.to);
    const auto run = [&](const auto& rules, const auto&... bias) {
      p::pass::backward(
          ctx, at.sizes, rules, attention_results<C, T>{q.to, k.to, v.to, bias.to.data..., bias.to.accumulate...},
          attention_inputs<C, T>{at.queries.at(std::as_const(dy).data()), at.queries.at(input<0>(saved).data()),
                                 at.keys.at(input<1>(saved).data()), at.keys.at(input<2>(saved).data()),
                                 at.queries.at(output(saved).data()), statistics(saved).data()});
    };
    if constexpr (sizeof...(Bias) == 0) {
      run(at.rules(*this));
    } else {
      gradient_output<C, Bias...> bias(ctx, dbias..., attention_operand<C>{});
      run(at.rules(*this, input<3>(saved)), bias);
      bias.finish();
    }
    q.finish();
    k.finish();
    v.finish();
  }

 private:
  template <class Q, class K>
  struct problem {
    static constexpr bool by_axis = Q::shape::rank == 4;
    static constexpr index_t depth = by_axis ? Q::shape::extent(3) : Q::shape::extent(2) / Heads;
    using number = compute_type<typename Q::value_type>;
    using pass = kernel<attention_pass<depth, decltype(gradus::detail::rules_of<number, depth>(
                                                  Options{}, attention_sizes{}, random_key{}))>,
                        typename Q::device>;
    gradus::detail::attention_layout<typename Q::shape, depth> queries;
    gradus::detail::attention_layout<typename K::shape, depth> keys;
    attention_sizes sizes;

    constexpr problem(const extents_of<typename Q::shape>& q, const extents_of<typename K::shape>& k)
        : queries{q}, keys{k}, sizes{queries.batch(), Heads, keys.heads(), queries.time(), keys.time()} {}
    static constexpr index_t queries_in(const auto& q) { return q.extent(by_axis ? 2 : 1); }
    template <class V, class... Bias>
    constexpr void check(const V& v, const Bias&... bias) const {
      constexpr index_t time = by_axis ? 2 : 1;
      check_extents_meet(name, 0, queries.batch(), keys.batch());
      check_extents_meet(name, 0, keys.batch(), v.extent(0));
      check_extents_meet(name, time, keys.time(), v.extent(time));
      if (std::is_same_v<Options, only_causal<true>>) check_extents_meet(name, time, sizes.queries, sizes.keys);
      [[maybe_unused]] const auto check_bias = [&](const auto& b) {
        if (b.extent(0) != 1) check_extents_meet(name, 0, b.extent(0), sizes.batch);
        check_extents_meet(name, 2, b.extent(2), sizes.queries);
        check_extents_meet(name, 3, b.extent(3), sizes.keys);
      };
      (check_bias(bias), ...);
    }
    template <class... Bias>
    constexpr auto rules(const scaled_attention& of, const Bias&... bias) const {
      auto made = gradus::detail::rules_of<number, depth>(of.options, sizes, of.key);
      ((made.bias = bias.data(), made.bias_per_batch = Bias::shape::in_type[0] != 1,
        made.bias_per_head = Bias::shape::extent(1) > 1),
       ...);
      return made;
    }
  };
  template <class Q, class K>
  static constexpr std::size_t flops_of(std::size_t products) {
    using p = problem<Q, K>;
    constexpr typename Q::shape q{};
    return gradus::detail::attention_flops(q.extent(0) * Heads, p::queries_in(q), p::queries_in(typename K::shape{}),
                                           p::depth, std::is_same_v<Options, only_causal<true>>, products);
  }
  /// Where the kernel writes a gradient: in the sink, or in a temporary of type T that finish() converts.
  template <class T, class X>
  struct gradient_output {
    using device = typename X::device;
    static constexpr bool direct = std::is_same_v<T, typename X::value_type>;

    const gradient_sink<X>& sink;
    tensor<T, typename X::shape, device> temporary;
    attention_operand<T> to;

    constexpr gradient_output(context<device>& ctx, const gradient_sink<X>& wanted, attention_operand<T> layout)
        : sink(wanted), to(layout) {
      if (!sink) return;
      if constexpr (direct) {
        auto target = sink.open(ctx);
        to.data = target.tensor.data();
        to.accumulate = target.accumulate;
      } else {
        temporary = tensor<T, typename X::shape, device>(ctx, sink.extents(), category::temporary);
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

}  // namespace gradus
