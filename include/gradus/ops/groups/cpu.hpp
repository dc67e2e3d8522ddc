#pragma once
// The CPU kernels of bincount and sort_by_group: on one thread, because a pass over the numbers is short.

#include <algorithm>
#include <cstdint>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../cumsum/cpu.hpp"
#include "../elementwise/cpu.hpp"
#include "../gather/cpu.hpp"
#include "../slice/cpu.hpp"
#include "groups.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

template <class Id>
void count_entries(std::int32_t* counts, const Id* x, index_t size, index_t bins) {
  std::fill_n(counts, bins, 0);
  for (index_t i = 0; i < size; ++i) ++counts[static_cast<index_t>(x[i])];
}

template <class Id, class Offset>
void place_by_group(context<cpu>& ctx, std::int32_t* places, const Id* groups, index_t size, const std::int32_t* counts,
                    const Offset* offsets, index_t number) {
  parallel_tasks(ctx, 1, 2 * number * sizeof(std::int32_t), [=](index_t, void* memory) {
    auto* const next = static_cast<std::int32_t*>(memory);  // the next place of each group
    auto* const next_dropped = next + number;
    auto dropped = static_cast<std::int32_t>(offsets[number]);
    for (index_t g = 0; g < number; ++g) {
      next[g] = static_cast<std::int32_t>(offsets[g]);
      next_dropped[g] = dropped;
      dropped += counts[g] - static_cast<std::int32_t>(offsets[g + 1] - offsets[g]);
    }
    for (index_t i = 0; i < size; ++i) {
      const auto g = static_cast<index_t>(groups[i]);
      places[i] = next[g] < static_cast<std::int32_t>(offsets[g + 1]) ? next[g]++ : next_dropped[g]++;
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <index_t Bins>
struct kernel<op::bincount<Bins>, cpu> {
  template <class Id>
  static void forward(context<cpu>&, std::int32_t* counts, const Id* x, index_t size) {
    cpu_kit::count_entries(counts, x, size, Bins);
  }
};

template <>
struct kernel<op::group_places, cpu> {
  template <class Id, class Offset>
  static void forward(context<cpu>& ctx, std::int32_t* places, const Id* groups, index_t size,
                      const std::int32_t* counts, const Offset* offsets, index_t number) {
    cpu_kit::place_by_group(ctx, places, groups, size, counts, offsets, number);
  }
};

}  // namespace gradus
