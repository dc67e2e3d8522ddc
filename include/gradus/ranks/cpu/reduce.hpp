#pragma once
// Reductions over ranks, on the CPU.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "../communicator.hpp"
#include "tree_sum.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// The smaller (or larger) of each pair of elements; NaN if one of them is.
template <bool Smaller, class T>
GRADUS_INLINE T extreme(T best, T x) {
  return (Smaller ? x < best : x > best) || x != x ? x : best;
}
template <bool Smaller, class T>
GRADUS_INLINE pack<T> extreme(pack<T> best, pack<T> x) {
  return select((Smaller ? x < best : x > best) || x != x, x, best);
}

/// to[i] = the smallest (or largest) of parts[.][i] for i in [begin, end), on the calling thread.
template <bool Smaller, class T>
void extreme_of(T* to, const T* const* parts, index_t count, index_t begin, index_t end) {
  if constexpr (std::is_integral_v<T>) {
    for (index_t i = begin; i < end; ++i) {
      T best = parts[0][i];
      for (index_t k = 1; k < count; ++k) best = extreme<Smaller>(best, parts[k][i]);
      to[i] = best;
    }
  } else {
    using C = compute_type<T>;
    for_packs<C>(end - begin, [&](index_t i, auto which) {
      pack<C> best = load<C>(parts[0] + begin + i, which);
      for (index_t k = 1; k < count; ++k) best = extreme<Smaller>(best, load<C>(parts[k] + begin + i, which));
      store(best, to + begin + i, which);
    });
  }
}

/// For i in [begin, end), element i of each of `copies` arrays `to` becomes the reduction of element i of all `count`
/// parts, in the order of sum_order::tree. A `to` may be one of the parts. Runs on the calling thread. A template, so
/// that gradus::compiled has it.
template <class = void>
void reduce_parts(element_type type, reduce_by by, void* const* to, index_t copies, const void* const* parts,
                  index_t count, index_t begin, index_t end) {
  with_element_type(type, [&]<class T>(T) {
    // nvcc takes no reinterpret_cast of void* const*: one pointer at a time.
    constexpr index_t most = 8192, block = 16384 / sizeof(T);
    const T* from[most];
    T* const first = static_cast<T*>(to[0]);
    for (index_t k = 0; k < count; ++k) from[k] = static_cast<const T*>(parts[k]);
    for (index_t i = begin; i < end; i += block) {
      const index_t last = std::min(end, i + block);
      if (by == reduce_by::sum) sum_tree(first, from, count, i, last);
      else if (by == reduce_by::minimum) extreme_of<true>(first, from, count, i, last);
      else extreme_of<false>(first, from, count, i, last);
      for (index_t k = 1; k < copies; ++k) std::memcpy(static_cast<T*>(to[k]) + i, first + i, (last - i) * sizeof(T));
    }
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD

namespace gradus {

/// A reduction kernel: see cpu_kit::reduce_parts.
using rank_reduction = void (*)(element_type, reduce_by, void* const* to, index_t copies, const void* const* parts,
                                index_t count, index_t begin, index_t end);

}  // namespace gradus
