#pragma once
#include <cstddef>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "simd.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Which lanes of a pack a step of for_packs covers: all, or the first few at the end of a run.
struct all_lanes {};
struct first_lanes {
  index_t count;
};

template <class C, class S>
GRADUS_INLINE pack<C> load(const S* from, all_lanes) {
  return pack<C>::load(from);
}
template <class C, class S>
GRADUS_INLINE pack<C> load(const S* from, first_lanes n) {
  return pack<C>::load(from, n.count);
}
template <class C, class S>
GRADUS_INLINE void store(pack<C> x, S* to, all_lanes) {
  x.store(to);
}
template <class C, class S>
GRADUS_INLINE void store(pack<C> x, S* to, first_lanes n) {
  x.store(to, n.count);
}
/// Lanes outside the run take the value `other`.
template <class C>
GRADUS_INLINE pack<C> inside_or(pack<C> x, C, all_lanes) {
  return x;
}
template <class C>
GRADUS_INLINE pack<C> inside_or(pack<C> x, C other, first_lanes n) {
  for (index_t i = n.count; i < lanes<C>; ++i) x.v[i] = other;
  return x;
}

/// Runs f(i, which lanes) over 0 .. n-1 in steps of a pack.
template <class C, class F>
GRADUS_INLINE void for_packs(index_t n, const F& f) {
  index_t i = 0;
  for (; i + lanes<C> <= n; i += lanes<C>) f(i, all_lanes{});
  if (i < n) f(i, first_lanes{n - i});
}

/// The sum of f(i, which lanes) over 0 .. n-1, in packs that do not wait for each other. Lanes outside the run must be
/// 0.
template <class C, class F>
GRADUS_INLINE C sum_packs(index_t n, const F& f) {
  pack<C> a(0), b(0);
  index_t i = 0;
  for (; i + 2 * lanes<C> <= n; i += 2 * lanes<C>) {
    a = a + f(i, all_lanes{});
    b = b + f(i + lanes<C>, all_lanes{});
  }
  for_packs<C>(n - i, [&](index_t k, auto which) { a = a + f(i + k, which); });
  return sum_lanes(a + b);
}

/// Writes x to `to`, or adds it to what is there.
template <class C, class S, class Which>
GRADUS_INLINE void put(pack<C> x, S* to, bool accumulate, Which which) {
  if (accumulate) x = x + load<C>(to, which);
  store(x, to, which);
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
