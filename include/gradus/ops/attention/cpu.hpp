#pragma once
// The CPU kernels of attention: passes the layouts of packed, separate and cached operands to cpu_flash.hpp.

#include <algorithm>
#include <cstring>

#include "../../core/config.hpp"
#include "../elementwise/cpu.hpp"
#include "../matmul/cpu.hpp"
#include "../permute/cpu.hpp"
#include "../slice/cpu.hpp"
#include "../softmax/cpu.hpp"
#include "attention.hpp"
#include "cached.hpp"
#include "cpu_flash.hpp"

namespace gradus {

template <index_t Heads>
struct kernel<op::causal_attention<Heads>, cpu> {
  template <class T, class Y, class C, class S, class X>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<C, S> lse, view<const T, X> qkv) {
    using d = detail::packed_attention<Heads, X>;
    cpu_kit::attention_forward<d::depth>(ctx, {d::batch, Heads, d::time, d::time, true, 0}, d::output(y.data()),
                                         lse.data(), d::part(qkv.data(), 0), d::part(qkv.data(), 1),
                                         d::part(qkv.data(), 2));
  }
  template <class T, class X, class Y, class C, class S>
  static void backward(context<cpu>& ctx, view<T, X> dqkv, bool accumulate, view<const T, Y> dy, view<const T, X> qkv,
                       view<const T, Y> y, view<const C, S> lse) {
    using d = detail::packed_attention<Heads, X>;
    cpu_kit::attention_backward<d::depth>(
        ctx, {d::batch, Heads, d::time, d::time, true, 0}, d::part(dqkv.data(), 0, accumulate),
        d::part(dqkv.data(), 1, accumulate), d::part(dqkv.data(), 2, accumulate), d::output(dy.data()),
        d::part(qkv.data(), 0), d::part(qkv.data(), 1), d::part(qkv.data(), 2), d::output(y.data()), lse.data());
  }
};

template <index_t Heads>
struct kernel<op::cached_attention<Heads>, cpu> {
  /// Appends the keys and values of the first past.count times of qkv to the cache, and attends from these times.
  template <class T, class Y, class X, index_t Context, index_t Depth>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<const T, X> qkv,
                      const key_value_view<T, shape<X::extent(0), Heads, Context, Depth>, cpu>& past) {
    constexpr index_t batch = X::extent(0), time = X::extent(1), width = Heads * Depth;
    using cached = shape<batch, Heads, Context, Depth>;
    const auto part = [&](index_t which) {
      return attention_operand<const T>{qkv.data() + which * width, time * 3 * width, Depth, 3 * width, false};
    };
    const auto in_cache = [](T* data) {
      return attention_operand<T>{data, cached::stride(0), cached::stride(1), cached::stride(2), false};
    };
    cpu_kit::attention_cached<Depth, compute_type<T>>(
        ctx, {batch, Heads, time, Context, true, 0}, past.position, past.count,
        attention_operand<T>{y.data(), time * width, Depth, width, false}, part(0), part(1), part(2),
        in_cache(past.keys.data()), in_cache(past.values.data()));
  }
};

template <bool Causal>
struct kernel<op::scaled_attention<Causal>, cpu> {
  template <class T, class Q, class C, class S, class K>
  static void forward(context<cpu>& ctx, view<T, Q> y, view<C, S> lse, view<const T, Q> q, view<const T, K> k,
                      view<const T, K> v) {
    cpu_kit::attention_forward<Q::extent(3)>(ctx, extents<Q, K>, at(y), lse.data(), at(q), at(k), at(v));
  }
  template <class T, class Q, class K, class C, class S>
  static void backward(context<cpu>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                       view<const T, Q> dy, view<const T, Q> q, view<const T, K> k, view<const T, K> v,
                       view<const T, Q> y, view<const C, S> lse) {
    cpu_kit::attention_backward<Q::extent(3)>(ctx, extents<Q, K>, dq, dk, dv, at(dy), at(q), at(k), at(v), at(y),
                                              lse.data());
  }

 private:
  template <class Q, class K>
  static constexpr cpu_kit::attention_extents extents{Q::extent(0), Q::extent(1), Q::extent(2),
                                                      K::extent(2), Causal,       0};
  template <class T, class S>
  static attention_operand<T> at(view<T, S> x) {
    return {x.data(), S::stride(0), S::stride(1), S::stride(2), false};
  }
};

}  // namespace gradus
