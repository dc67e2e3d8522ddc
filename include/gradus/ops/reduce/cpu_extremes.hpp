#pragma once
// Extreme values and the places where they occur first. NaN precedes all numbers.

#include <algorithm>
#include <cstdint>

#include "cpu_grid.hpp"
#include "cpu_sums.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

template <bool Largest, class C>
GRADUS_INLINE bool better(C a, C b) {
  return (Largest ? a > b : a < b) || (a != a && b == b);
}
template <bool Largest, class C>
GRADUS_INLINE pack_mask<C> better(pack<C> a, pack<C> b) {  // not (a <= b) is true for NaN, too
  return !(Largest ? a <= b : a >= b) && b == b;
}

template <class C, bool Largest>
struct row_extreme {
  C value{};
  std::int32_t at = 0;
  bool any = false;

  /// Keeps the first of equal values, because they arrive in order.
  GRADUS_INLINE void offer(C v, std::int32_t where) {
    if (!any || better<Largest>(v, value)) *this = {v, where, true};
  }
  void merge(const row_extreme& o) { offer(o.value, o.at); }
};
template <class C, bool Largest>
struct column_extremes {
  using place = typename pack<C>::integer;
  C value[reduction_grid::block];
  place at[reduction_grid::block];
  index_t width;

  template <class T>
  void begin(const T* row, index_t number, index_t n) {
    width = n;
    std::transform(row, row + n, value, [](T v) { return static_cast<C>(v); });
    std::fill_n(at, n, static_cast<place>(number));
  }
  void merge(const column_extremes& o) {
    for (index_t i = 0; i < width; ++i) {
      if (!better<Largest>(o.value[i], value[i])) continue;
      value[i] = o.value[i];
      at[i] = o.at[i];
    }
  }
};

/// In each lane, the extreme value so far and the index of its first occurrence.
template <class C, bool Largest>
struct lane_extremes {
  using places = typename pack<C>::mask_native;
  pack<C> value;
  places at;

  GRADUS_INLINE void offer(pack<C> v, places where) {
    const auto take = better<Largest>(v, value);
    value = select(take, v, value);
    at = take.m ? where : at;
  }
  GRADUS_INLINE void merge(const lane_extremes& o) {
    const auto beaten = better<Largest>(value, o.value), other = better<Largest>(o.value, value);
    const places take = other.m | (~beaten.m & (o.at < at));
    value.v = take ? o.value.v : value.v;
    at = take ? o.at : at;
  }
};

/// The extreme value of n elements and its first index.
template <class C, bool Largest, class T>
GRADUS_INLINE row_extreme<C, Largest> best_of_run(const T* from, index_t n) {
  using lanes_so_far = lane_extremes<C, Largest>;
  row_extreme<C, Largest> best{static_cast<C>(from[0]), 0, true};
  const index_t packs = n / lanes<C>;
  if (packs > 0) {
    const auto number = [&](index_t p) { return pack<C>::load(from + p * lanes<C>); };
    lanes_so_far a{number(0), {}}, b = a, c = a, d = a;  // four independent chains hide the latency
    typename lanes_so_far::places four{};
    index_t p = 0;
    for (; p + 4 <= packs; p += 4) {
      a.offer(number(p), four);
      b.offer(number(p + 1), four);
      c.offer(number(p + 2), four);
      d.offer(number(p + 3), four);
      four = four + 1;
    }
    if (p < packs) a.offer(number(p), four);
    if (p + 1 < packs) b.offer(number(p + 1), four);
    if (p + 2 < packs) c.offer(number(p + 2), four);
    a.at = 4 * a.at, b.at = 4 * b.at + 1, c.at = 4 * c.at + 2, d.at = 4 * d.at + 3;
    a.merge(b);
    c.merge(d);
    a.merge(c);
    for (index_t l = 0; l < lanes<C>; ++l) {
      const C v = a.value.v[l];
      const auto at = static_cast<std::int32_t>(static_cast<index_t>(a.at[l]) * lanes<C> + l);
      const bool take = better<Largest>(v, best.value) || (!better<Largest>(best.value, v) && at < best.at);
      best.value = take ? v : best.value;
      best.at = take ? at : best.at;
    }
  }
  for (index_t i = packs * lanes<C>; i < n; ++i) best.offer(static_cast<C>(from[i]), static_cast<std::int32_t>(i));
  return best;
}

/// The extreme values and their places; y or at may be null.
template <bool Largest, class T>
void find_extremes(context<cpu>& ctx, const reduction_grid& grid, T* y, std::int32_t* at, const T* x) {
  using C = reduce_type<T>;
  const auto finish = [=](index_t output, C value, auto place) {
    if (y != nullptr) y[output] = static_cast<T>(value);
    if (at != nullptr) at[output] = static_cast<std::int32_t>(place);
  };
  if (grid.inner_reduced) {
    using state = row_extreme<C, Largest>;
    const auto take = [](state& s, index_t, const T* from, index_t n, index_t first) {
      const auto best = best_of_run<C, Largest>(from, n);
      s.offer(best.value, static_cast<std::int32_t>(first) + best.at);
    };
    reduce_rows<state>(ctx, grid, x, take, [&](index_t o, const state& s) { finish(o, s.value, s.at); });
  } else {
    using state = column_extremes<C, Largest>;
    using so_far = lane_extremes<C, Largest>;
    using numbers = pack<typename state::place>;
    const auto take = [](state& s, const reduced_rows<T>& first, index_t count, index_t column, index_t width,
                         index_t) {
      for_strips<C>(
          width, [&]<index_t P>(std::integral_constant<index_t, P>, index_t c, auto which)
                     __attribute__((always_inline)) {
                       so_far best[P];
                       unrolled<P>([&](index_t p) __attribute__((always_inline)) {
                         const index_t i = c + p * lanes<C>;
                         best[p] = {load<C>(s.value + i, which), load<typename state::place>(s.at + i, which).v};
                       });
                       first.for_next(
                           count, [&](const T* row, index_t number) __attribute__((always_inline)) {
                             const auto where = typename so_far::places{} + static_cast<typename state::place>(number);
                             unrolled<P>([&](index_t p) __attribute__((always_inline)) {
                               best[p].offer(load<C>(row + column + c + p * lanes<C>, which), where);
                             });
                           });
                       unrolled<P>([&](index_t p) __attribute__((always_inline)) {
                         const index_t i = c + p * lanes<C>;
                         store(best[p].value, s.value + i, which);
                         store(numbers(best[p].at), s.at + i, which);
                       });
                     });
    };
    reduce_columns<state>(ctx, grid, x, take, [&](index_t o, const state& s, index_t width) {
      for (index_t i = 0; i < width; ++i) finish(o + i, s.value[i], s.at[i]);
    });
  }
}

/// dx += dy at the places of the extremes.
template <class T, class TY>
void add_at_places(context<cpu>& ctx, const reduction_grid& grid, T* dx, const TY* dy, const std::int32_t* at) {
  using C = compute_type<T>;
  parallel_elements(ctx, grid.outputs, 1 << 12, [&](index_t first, index_t last) {
    for (index_t o = first; o < last; ++o) {
      const auto place = static_cast<index_t>(at[o]);
      const index_t where = grid.inner_reduced ? grid.row(o, place / grid.inner) + place % grid.inner
                                               : grid.row(o / grid.inner, place) + o % grid.inner;
      dx[where] = static_cast<T>(static_cast<C>(dx[where]) + static_cast<C>(dy[o]));
    }
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
