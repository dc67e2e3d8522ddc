#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../precision/promotion.hpp"
#include "softmax.hpp"

namespace gradus {

/// A row at a time, which stays in the cache: its maximum, then the exponentials and their sum, then the scaling.
template <bool Log>
struct kernel<op::softmax<Log>, cpu> {
  template <class TY, class T, class S>
  static void forward(context<cpu>& ctx, view<TY, S> y, view<const T, S> x) {
    using C = compute_type<promote<TY, T>>;
    rows<S>(ctx, [&](index_t start) {
      const T* from = x.data() + start;
      TY* to = y.data() + start;
      constexpr index_t n = columns_of<S>;
      constexpr C lowest = -std::numeric_limits<C>::infinity();
      pack<C> most(lowest);
      each<C, n>([&](index_t i, auto count) {
        const pack<C> v = get(from + i, count, lowest);
        most = select(v > most, v, most);
      });
      const pack<C> top(max_lanes(most));
      pack<C> total(0);
      each<C, n>([&](index_t i, auto count) {  // lanes past the end are -inf, and add e^-inf = 0
        __builtin_prefetch(from + n + i);      // of the next row
        const pack<C> e = exp(get(from + i, count, lowest) - top);
        total = total + e;
        if constexpr (!Log) put(e, to + i, count);
      });
      const C sum = sum_lanes(total);
      if constexpr (Log) {
        const pack<C> shift(std::log(sum));
        each<C, n>([&](index_t i, auto count) { put(get(from + i, count, C(0)) - top - shift, to + i, count); });
      } else {
        const pack<C> scale(C(1) / sum);
        each<C, n>([&](index_t i, auto count) { put(get(to + i, count, C(0)) * scale, to + i, count); });
      }
    });
  }

  template <class T, class TY, class S>
  static void backward(context<cpu>& ctx, view<T, S> dx, bool accumulate, view<const TY, S> dy, view<const TY, S> y) {
    using C = compute_type<promote<TY, T>>;
    rows<S>(ctx, [&](index_t start) {
      constexpr index_t n = columns_of<S>;
      pack<C> total(0);
      each<C, n>([&](index_t i, auto count) {
        const pack<C> g = get(dy.data() + start + i, count, C(0));
        if constexpr (Log) total = total + g;
        else total = total + g * get(y.data() + start + i, count, C(0));
      });
      const pack<C> sum(sum_lanes(total));
      each<C, n>([&](index_t i, auto count) {
        __builtin_prefetch(dy.data() + start + n + i);
        __builtin_prefetch(y.data() + start + n + i);
        const pack<C> g = get(dy.data() + start + i, count, C(0));
        const pack<C> v = get(y.data() + start + i, count, C(0));
        pack<C> d;
        if constexpr (Log) d = g - exp(v) * sum;
        else d = v * (g - sum);
        if (accumulate) d = d + get(dx.data() + start + i, count, C(0));
        put(d, dx.data() + start + i, count);
      });
    });
  }

 private:
  template <class S, class F>
  static void rows(context<cpu>& ctx, const F& f) {
    constexpr index_t n = columns_of<S>;
    cpu_kit::parallel_elements(ctx, S::size / n, std::max<index_t>(1, 4096 / n), [&](index_t first, index_t last) {
      for (index_t r = first; r < last; ++r) f(r * n);
    });
  }
  // f(offset, lanes) for the packs of a row; a pack's lanes are known to the compiler.
  template <class C, index_t N, class F>
  static GRADUS_INLINE void each(const F& f) {
    constexpr index_t whole = N / lanes<C> * lanes<C>;
    if constexpr (whole > 0)
      for (index_t i = 0; i < whole; i += lanes<C>) f(i, std::integral_constant<index_t, lanes<C>>{});
    if constexpr (whole < N) f(whole, std::integral_constant<index_t, N - whole>{});
  }
  template <class S, index_t N, class C>
  static GRADUS_INLINE pack<C> get(const S* from, std::integral_constant<index_t, N>, C rest) {
    if constexpr (N == lanes<C>) return pack<C>::load(from);
    else return pack<C>::load(from, N, rest);
  }
  template <class S, index_t N, class C>
  static GRADUS_INLINE void put(pack<C> v, S* to, std::integral_constant<index_t, N>) {
    if constexpr (N == lanes<C>) v.store(to);
    else v.store(to, N);
  }
};

}  // namespace gradus
