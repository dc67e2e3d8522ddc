#pragma once
// A stable sort without deprecated functions.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "vector.hpp"

namespace gradus::detail {

/// std::stable_sort without its temporary buffer, for which libstdc++ 12 calls a deprecated function: clang warns.
template <class Vector, class Before>
constexpr void sort_stably(Vector& values, const Before& before) {
  vector<std::size_t> order(values.size(), 0);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (before(values[a], values[b])) return true;
    return !before(values[b], values[a]) && a < b;
  });
  Vector sorted;
  sorted.reserve(values.size());
  for (const std::size_t i : order) sorted.push_back(std::move(values[i]));
  values = std::move(sorted);
}

}  // namespace gradus::detail
