#pragma once
// The CPU kernel of sort, argsort and topk.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/parallel.hpp"
#include "sort.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Sorts the places 0 .. columns-1 of each row by their elements, then by themselves: a total order, so that no
/// algorithm needs memory of its own.
template <class T>
void sort_places(context<cpu>& ctx, std::int32_t* places, const T* x, index_t rows, index_t columns, index_t count,
                 bool descending) {
  using C = compute_type<T>;
  if constexpr (is_floating<T>)
    for (index_t i = 0; i < rows * columns; ++i)
      if (const C v = static_cast<C>(x[i]); v != v) [[unlikely]]
        throw error("sort, argsort, topk: element " + std::to_string(i) + " is NaN, which has no place in an order");
  const index_t grain = std::max<index_t>(1, 4096 / columns);
  parallel_tasks(ctx, (rows + grain - 1) / grain, columns * sizeof(std::int32_t), [=](index_t task, void* memory) {
    for (index_t row = task * grain; row < std::min(rows, (task + 1) * grain); ++row) {
      const T* const from = x + row * columns;
      std::int32_t* const to = places + row * count;
      std::int32_t* const first = count == columns ? to : static_cast<std::int32_t*>(memory);
      std::iota(first, first + columns, 0);
      const auto before = [=](std::int32_t a, std::int32_t b) {
        const C u = static_cast<C>(from[a]), v = static_cast<C>(from[b]);
        return u != v ? (u < v) != descending : a < b;
      };
      if (count == columns) {
        std::sort(first, first + columns, before);
      } else {
        std::partial_sort(first, first + count, first + columns, before);
        std::copy(first, first + count, to);
      }
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::sorted_places, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, std::int32_t* places, const T* x, index_t rows, index_t columns, index_t count,
                      bool descending) {
    cpu_kit::sort_places(ctx, places, x, rows, columns, count, descending);
  }
};

}  // namespace gradus
