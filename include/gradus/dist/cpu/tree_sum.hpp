#pragma once
// Sums over leaves and ranks, on the CPU.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "../tree_sum.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Elements that a sum over parts keeps in the cache.
inline constexpr index_t tree_block = 512;

/// Writes the sum of elements [begin, begin + n) of parts [first, first + count) to `sums`; `scratch` has n elements
/// for each level of the tree.
template <class T, class C>
void sum_tree(const T* const* parts, index_t first, index_t count, index_t begin, index_t n, C* sums, C* scratch) {
  if (count == 1) {
    for_packs<C>(n, [&](index_t i, auto which) { store(load<C>(parts[first] + begin + i, which), sums + i, which); });
    return;
  }
  const index_t half = op::tree_sum::first_half(count);
  sum_tree(parts, first, half, begin, n, sums, scratch);
  if (half + 1 == count) {
    for_packs<C>(n, [&](index_t i, auto which) {
      store(load<C>(sums + i, which) + load<C>(parts[first + half] + begin + i, which), sums + i, which);
    });
    return;
  }
  sum_tree(parts, first + half, count - half, begin, n, scratch, scratch + tree_block);
  for_packs<C>(n, [&](index_t i, auto which) {
    store(load<C>(sums + i, which) + load<C>(scratch + i, which), sums + i, which);
  });
}

/// to[i] = the sum of parts[.][i] for i in [begin, end), on the calling thread.
template <class T>
void sum_tree(T* to, const T* const* parts, index_t count, index_t begin, index_t end) {
  if constexpr (std::is_integral_v<T>) {
    for (index_t i = begin; i < end; ++i) {
      std::make_unsigned_t<T> sum = 0;
      for (index_t k = 0; k < count; ++k)
        sum = static_cast<std::make_unsigned_t<T>>(sum + static_cast<std::make_unsigned_t<T>>(parts[k][i]));
      to[i] = static_cast<T>(sum);
    }
  } else {
    using C = compute_type<T>;
    constexpr index_t levels = 14;  // of 8192 parts
    alignas(64) C sums[levels * tree_block];
    for (index_t i = begin; i < end; i += tree_block) {
      const index_t n = std::min(tree_block, end - i);
      sum_tree(parts, 0, count, i, n, sums, sums + tree_block);
      for_packs<C>(n, [&](index_t k, auto which) { store(load<C>(sums + k, which), to + i + k, which); });
    }
  }
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::tree_sum, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, T* to, const std::vector<const T*>& parts, index_t n) {
    cpu_kit::parallel_elements(ctx, n, index_t{1} << 15, [&](index_t begin, index_t end) {
      cpu_kit::sum_tree(to, parts.data(), parts.size(), begin, end);
    });
  }
};

template <>
struct kernel<op::merge_leaves, cpu> {
  template <class To, class C, class From>
  static void forward(context<cpu>& ctx, To* to, const std::vector<const C*>& before, const From* leaf, index_t n) {
    cpu_kit::parallel_elements(ctx, n, index_t{1} << 15, [&](index_t begin, index_t end) {
      cpu_kit::for_packs<C>(end - begin, [&](index_t k, auto which) {
        const index_t i = begin + k;
        pack<C> sum = cpu_kit::load<C>(leaf + i, which);
        for (const C* part : before) sum = cpu_kit::load<C>(part + i, which) + sum;
        cpu_kit::store(sum, to + i, which);
      });
    });
  }
};

}  // namespace gradus
