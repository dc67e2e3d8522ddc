#pragma once
// The CPU kernel of tril and triu.

#include <algorithm>
#include <cstddef>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "triangle.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

template <class T>
void keep_triangle(context<cpu>& ctx, T* y, const T* x, triangle_layout by, bool upper, bool accumulate) {
  using C = compute_type<T>;
  for_rows(ctx, by.matrices * by.rows, by.columns, 8192, [=](index_t row) {
    const auto columns = static_cast<std::ptrdiff_t>(by.columns);
    const std::ptrdiff_t on = static_cast<std::ptrdiff_t>(row % by.rows) + by.diagonal;  // the diagonal's column
    const std::ptrdiff_t edge = std::clamp<std::ptrdiff_t>(upper ? on : on + 1, 0, columns);
    const std::ptrdiff_t first = upper ? edge : 0, last = upper ? columns : edge;
    T* const to = y + row * by.columns;
    const T* const from = x + row * by.columns;
    if (accumulate) {
      for (std::ptrdiff_t i = first; i < last; ++i)
        to[i] = static_cast<T>(static_cast<C>(to[i]) + static_cast<C>(from[i]));
    } else {
      std::fill(to, to + first, T{});
      std::copy(from + first, from + last, to + first);
      std::fill(to + last, to + columns, T{});
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <bool Upper>
struct kernel<op::triangle<Upper>, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, T* y, const T* x, triangle_layout by, bool accumulate) {
    cpu_kit::keep_triangle(ctx, y, x, by, Upper, accumulate);
  }
};

}  // namespace gradus
