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

/// Writes the sum of elements [begin, begin + n) of parts [first, first + count) to `sums`, which may be one of the
/// parts. `left` holds the sums of first halves, n elements for each level of the tree; it may be `sums`.
template <class T, class C, class To>
void sum_tree(const T* const* parts, index_t first, index_t count, index_t begin, index_t n, C* left, To* sums) {
  const auto part = [&](index_t k) { return parts[first + k] + begin; };
  const auto add = [&](const auto* a, const auto* b) {
    for_packs<C>(n,
                 [&](index_t i, auto which) { store(load<C>(a + i, which) + load<C>(b + i, which), sums + i, which); });
  };
  if (count == 1)
    return for_packs<C>(n, [&](index_t i, auto which) { store(load<C>(part(0) + i, which), sums + i, which); });
  if (count == 2) return add(part(0), part(1));
  const index_t half = op::tree_sum::first_half(count);
  sum_tree(parts, first, half, begin, n, left, left);
  if (half + 1 == count) return add(left, part(half));
  C* const right = left + tree_block;
  sum_tree(parts, first + half, count - half, begin, n, right, right);
  add(left, right);
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
    for (index_t i = begin; i < end; i += tree_block)
      sum_tree(parts, 0, count, i, std::min(tree_block, end - i), sums, to + i);
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
