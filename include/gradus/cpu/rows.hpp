#pragma once
// Loops over rows and over packs of a row, with sums in a fixed order. Extents are arguments, not template parameters.

#include <algorithm>
#include <cstddef>
#include <limits>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "parallel.hpp"
#include "simd.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Runs f(row) for row = 0 .. rows-1 on the context's threads, about `elements` elements per task.
template <class F>
void for_rows(context<cpu>& ctx, index_t rows, index_t columns, index_t elements, const F& f) {
  parallel_elements(
      ctx, rows, std::max<index_t>(1, elements / columns),
      [&](index_t first, index_t last) __attribute__((flatten)) {  // a call per row would slow short rows
        for (index_t r = first; r < last; ++r) f(r);
      });
}

/// The lanes that one step of for_packs covers: all, or the first few at the end.
struct all_lanes {};
struct first_lanes {
  index_t count;  ///< all, if not below the number of lanes
};

template <class C, class S>
GRADUS_INLINE pack<C> load(const S* from, all_lanes) {
  return pack<C>::load(from);
}
/// Loads lanes; those outside the run are 0.
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
/// Stores x to `to`, or adds it if `accumulate`.
template <class C, class S, class Which>
GRADUS_INLINE void put(pack<C> x, S* to, bool accumulate, Which which) {
  if (accumulate) x = x + load<C>(to, which);
  store(x, to, which);
}
/// Replaces the lanes outside the run by `other`.
template <class C>
GRADUS_INLINE pack<C> inside_or(pack<C> x, C, all_lanes) {
  return x;
}
template <class C>
GRADUS_INLINE pack<C> inside_or(pack<C> x, C other, first_lanes n) {
  return select(pack_mask<C>(detail::lanes_below<typename pack<C>::mask_native>(n.count)), x, pack<C>(other));
}

/// Calls f(i, lanes) over 0 .. n-1 in steps of a pack.
template <class C, class F>
GRADUS_INLINE void for_packs(index_t n, const F& f) {
  index_t i = 0;
  for (; i + lanes<C> <= n; i += lanes<C>) f(i, all_lanes{});
  if (i < n) f(i, first_lanes{n - i});
}

/// Reduces the packs f(i, lanes) over 0 .. n-1, or several of each, with join(a, b), starting at `start`, in `Chains`
/// independent chains.
template <class C, index_t Chains, class Packs, class Join, class F>
GRADUS_INLINE Packs fold_packs(index_t n, const Packs& start, const Join& join, const F& f) {
  static_assert(Chains == 1 || Chains == 2 || Chains == 4);
  Packs a = start, b = start, c = start, d = start;
  index_t i = 0;
  if constexpr (Chains > 1)
    for (; i + Chains * lanes<C> <= n; i += Chains * lanes<C>) {
      a = join(a, f(i, all_lanes{}));
      b = join(b, f(i + lanes<C>, all_lanes{}));
      if constexpr (Chains == 4) {
        c = join(c, f(i + 2 * lanes<C>, all_lanes{}));
        d = join(d, f(i + 3 * lanes<C>, all_lanes{}));
      }
    }
  for_packs<C>(n - i, [&](index_t k, auto which) { a = join(a, f(i + k, which)); });
  if constexpr (Chains > 1) a = join(a, b);
  if constexpr (Chains == 4) a = join(a, join(c, d));
  return a;
}

/// Sums f(i, lanes) over 0 .. n-1: blocks of 4096 in `Chains` chains, whose sums are added in double, so that long rows
/// lose no digits. Lanes outside the run must be 0.
template <class C, index_t Chains = 2, class F>
GRADUS_INLINE C sum_packs(index_t n, const F& f) {
  constexpr index_t block = 4096;
  const auto add = [](pack<C> a, pack<C> b) { return a + b; };
  double sum = 0;
  for (index_t first = 0; first < n; first += block)
    sum += static_cast<double>(sum_lanes(fold_packs<C, Chains>(std::min(block, n - first), pack<C>(0), add,
                                                               [&](index_t i, auto w) { return f(first + i, w); })));
  return static_cast<C>(sum);
}
/// The largest of n elements; ignores NaN.
template <class C, class S>
GRADUS_INLINE C largest_of(const S* x, index_t n) {
  constexpr C lowest = -std::numeric_limits<C>::infinity();
  const auto larger = [](pack<C> a, pack<C> b) { return select(b > a, b, a); };
  return max_lanes(fold_packs<C, 4>(n, pack<C>(lowest), larger, [&](index_t i, auto which) {
    return inside_or(load<C>(x + i, which), lowest, which);
  }));
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
