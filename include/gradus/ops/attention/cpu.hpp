#pragma once
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
    using d = dims<X>;
    d::template flash<C, T>::forward(ctx, d::batch, Heads, d::output(y.data()), lse.data(), d::part(qkv.data(), 0),
                                     d::part(qkv.data(), 1), d::part(qkv.data(), 2));
  }
  template <class T, class X, class Y, class C, class S>
  static void backward(context<cpu>& ctx, view<T, X> dqkv, bool accumulate, view<const T, Y> dy, view<const T, X> qkv,
                       view<const T, Y> y, view<const C, S> lse) {
    using d = dims<X>;
    d::template flash<C, T>::backward(ctx, d::batch, Heads, d::part(dqkv.data(), 0, accumulate),
                                      d::part(dqkv.data(), 1, accumulate), d::part(dqkv.data(), 2, accumulate),
                                      d::output(dy.data()), d::part(qkv.data(), 0), d::part(qkv.data(), 1),
                                      d::part(qkv.data(), 2), d::output(y.data()), lse.data());
  }

 private:
  template <class X>
  struct dims : detail::packed_attention<Heads, X> {
    template <class C, class T>
    using flash = cpu_kit::flash_attention<C, T, dims::depth, dims::time, dims::time, true>;
  };
};

template <index_t Heads>
struct kernel<op::cached_attention<Heads>, cpu> {
  /// Puts the keys and values of the first past.count times of qkv where they belong, and attends from these times.
  template <class T, class Y, class X, index_t Context, index_t Depth>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<const T, X> qkv,
                      const key_value_view<T, shape<X::extent(0), Heads, Context, Depth>, cpu>& past) {
    constexpr index_t batch = X::extent(0), time = X::extent(1), width = Heads * Depth;
    using cached = shape<batch, Heads, Context, Depth>;
    using flash = cpu_kit::flash_attention<compute_type<T>, T, Depth, time, Context, true, Context>;
    const auto part = [&](index_t which) {
      return attention_operand<const T>{qkv.data() + which * width, time * 3 * width, Depth, 3 * width, false};
    };
    const auto in_cache = [](T* data) {
      return attention_operand<const T>{data, cached::stride(0), cached::stride(1), cached::stride(2), false};
    };
    const auto keep = [&](attention_operand<const T> from, T* to, index_t b, index_t h) {
      to += b * cached::stride(0) + h * cached::stride(1) + past.position * Depth;
      for (index_t t = 0; t < past.count; ++t)
        std::memcpy(static_cast<void*>(to + t * Depth), from.data + b * from.batch + h * from.head + t * from.time,
                    Depth * sizeof(T));
    };
    flash::forward_at(ctx, batch, Heads, past.position, past.count,
                      attention_operand<T>{y.data(), time * width, Depth, width, false}, part(0),
                      in_cache(past.keys.data()), in_cache(past.values.data()), [&](index_t b, index_t h) {
                        keep(part(1), past.keys.data(), b, h);
                        keep(part(2), past.values.data(), b, h);
                        for (index_t t = past.count; t < time; ++t)
                          std::fill_n(y.data() + (b * time + t) * width + h * Depth, Depth, T{});
                      });
  }
};

template <bool Causal>
struct kernel<op::scaled_attention<Causal>, cpu> {
  template <class T, class Q, class C, class S, class K>
  static void forward(context<cpu>& ctx, view<T, Q> y, view<C, S> lse, view<const T, Q> q, view<const T, K> k,
                      view<const T, K> v) {
    flash<C, T, Q, K>::forward(ctx, Q::extent(0), Q::extent(1), at(y), lse.data(), at(q), at(k), at(v));
  }
  template <class T, class Q, class K, class C, class S>
  static void backward(context<cpu>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                       view<const T, Q> dy, view<const T, Q> q, view<const T, K> k, view<const T, K> v,
                       view<const T, Q> y, view<const C, S> lse) {
    flash<C, T, Q, K>::backward(ctx, Q::extent(0), Q::extent(1), dq, dk, dv, at(dy), at(q), at(k), at(v), at(y),
                                lse.data());
  }

 private:
  template <class C, class T, class Q, class K>
  using flash = cpu_kit::flash_attention<C, T, Q::extent(3), Q::extent(2), K::extent(2), Causal>;
  template <class T, class S>
  static attention_operand<T> at(view<T, S> x) {
    return {x.data(), S::stride(0), S::stride(1), S::stride(2), false};
  }
};

}  // namespace gradus
