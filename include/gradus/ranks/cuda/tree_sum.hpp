#pragma once
// Sums over leaves and ranks, on a GPU.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/runs.hpp"
#include "../tree_sum.hpp"

namespace gradus {

namespace cuda_kit {

/// Where the parts of a sum are, as an argument of a kernel: a table of addresses, or parts at equal distances.
template <class T>
struct part_table {
  static constexpr index_t capacity = 64;
  static constexpr int levels = 7;  ///< of a tree of that many parts
  const T* at[capacity];
  index_t count;
  const __device__ T* operator[](index_t k) const { return at[k]; }
};
template <class T>
struct part_row {
  static constexpr int levels = 14;
  static constexpr index_t capacity = (index_t{1} << levels) - 1;
  const T* first;
  index_t distance;  ///< in elements
  index_t count;
  const __device__ T* operator[](index_t k) const { return first + k * distance; }
};

/// What a reduction does with two elements. NaN is the result if one is NaN.
struct sum_of_two {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct smaller_of_two {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};
struct larger_of_two {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};

/// How threads walk elements whose first is `shift` elements behind a boundary of their loads.
struct element_walk {
  index_t size;
  index_t shift;
  bool vectors;  ///< so it is in all operands
};
/// The walk of `size` elements of operands at these addresses, in runs of Width elements.
template <int Width, class T, class... Ts>
element_walk walk_of(index_t size, const T* first, const std::vector<const Ts*>&... others) {
  const auto shift_of = [](const auto* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof(*p) % Width; };
  const index_t shift = shift_of(first);
  const auto alike = [&](const auto& list) {
    return std::all_of(list.begin(), list.end(), [&](const auto* p) { return shift_of(p) == shift; });
  };
  const bool vectors = (alike(others) && ...);
  return {size, vectors ? shift : 0, vectors};
}
template <int Width>
unsigned walk_blocks(const element_walk& walk) {
  return flat_blocks(walk.shift + walk.size, Width);
}
/// Calls body(whole, at, n) for this thread's run of n elements from `at` on; the type `whole` is true if n is Width
/// and the run is aligned.
template <int Width, class Body>
__device__ inline void walk_elements(const element_walk& walk, const Body& body) {
  const index_t ahead = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) * Width;
  const index_t at = ahead < walk.shift ? 0 : ahead - walk.shift;
  const index_t behind = ahead + Width - walk.shift, end = behind < walk.size ? behind : walk.size;
  if (at >= end) return;
  const int n = static_cast<int>(end - at);
  if (walk.vectors && n == Width) body(std::true_type{}, at, n);
  else body(std::false_type{}, at, n);
}

/// to[i] = the reduction of parts[.][i]. A sum in floating point goes by the tree, whose complete subtrees wait in
/// `left`, one for each bit of the number of parts so far; all else goes from part to part.
template <class T, class Parts, class By>
__global__ void __launch_bounds__(block_threads)
    reduce_parts_kernel(const __grid_constant__ Parts parts, T* to, element_walk walk, By combine) {
  constexpr int width = vector_width<T>;
  constexpr bool by_tree = std::is_same_v<By, sum_of_two> && !std::is_integral_v<T>;
  walk_elements<width>(walk, [&](auto whole, index_t at, int n) {
    using C = typename std::conditional_t<std::is_integral_v<T> && std::is_same_v<By, sum_of_two>,
                                          std::make_unsigned<T>, std::type_identity<compute_type<T>>>::type;
    vector_of<C, width> left[by_tree ? Parts::levels : 1], sum;
    const auto read = [&](index_t k) {
      const auto v = load<width, decltype(whole)::value>(parts[k] + at, n);
#pragma unroll
      for (int i = 0; i < width; ++i) sum.at[i] = static_cast<C>(v.at[i]);
    };
    const auto add_to = [&](const vector_of<C, width>& before) {
#pragma unroll
      for (int i = 0; i < width; ++i) sum.at[i] = static_cast<C>(combine(before.at[i], sum.at[i]));
    };
    if constexpr (by_tree) {
      for (index_t k = 0; k < parts.count; ++k) {
        read(k);
        bool carried = true;
#pragma unroll
        for (int level = 0; level < Parts::levels; ++level) {
          if (carried && (k >> level & 1) == 0) left[level] = sum, carried = false;
          if (carried) add_to(left[level]);
        }
      }
      bool first = true;
#pragma unroll
      for (int level = 0; level < Parts::levels; ++level) {
        if ((parts.count >> level & 1) == 0) continue;
        if (first) sum = left[level], first = false;
        else add_to(left[level]);
      }
    } else {
      read(0);
      for (index_t k = 1; k < parts.count; ++k) {
        left[0] = sum;
        read(k);
        add_to(left[0]);
      }
    }
    vector_of<T, width> rounded;
#pragma unroll
    for (int i = 0; i < width; ++i) rounded.at[i] = convert_element<T>(sum.at[i]);
    store<width, decltype(whole)::value>(to + at, rounded, n);
  });
}

/// to[i] = the reduction of parts[.][i], in the order of op::tree_sum. `to` may be one of the parts. Throws error for
/// more than 64 parts, unless they are at equal distances.
template <class By, class T>
void reduce_parts(context<cuda>& ctx, T* to, const std::vector<const T*>& parts, index_t n, By by = {}) {
  if (n == 0) return;
  constexpr int width = vector_width<T>;
  const element_walk walk = walk_of<width>(n, to, parts);
  const auto launch_on = [&](const auto& where) {
    launch(ctx, &reduce_parts_kernel<T, std::remove_cvref_t<decltype(where)>, By>, walk_blocks<width>(walk),
           block_threads, where, to, walk, by);
  };
  if (parts.size() <= part_table<T>::capacity) {
    part_table<T> table{};
    std::copy(parts.begin(), parts.end(), table.at);
    table.count = parts.size();
    return launch_on(table);
  }
  const part_row<T> row{parts[0], static_cast<index_t>(parts[1] - parts[0]), parts.size()};
  bool equal = row.count <= part_row<T>::capacity;
  for (index_t k = 0; k < row.count && equal; ++k) equal = parts[k] == row.first + k * row.distance;
  if (!equal)
    throw error("tree_sum: " + std::to_string(parts.size()) + " parts; more than " +
                std::to_string(part_table<T>::capacity) + " must be at equal distances, and fewer than " +
                std::to_string(part_row<T>::capacity + 1));
  launch_on(row);
}

template <class To, class C, class From>
__global__ void __launch_bounds__(block_threads)
    merge_leaves_kernel(const __grid_constant__ part_table<C> before, const From* leaf, To* to, element_walk walk) {
  constexpr int width = vector_width<From>;
  walk_elements<width>(walk, [&](auto whole, index_t at, int n) {
    constexpr bool aligned = decltype(whole)::value;
    vector_of<C, width> sum;
    const auto last = load<width, aligned>(leaf + at, n);
#pragma unroll
    for (int i = 0; i < width; ++i) sum.at[i] = static_cast<C>(last.at[i]);
    for (index_t k = 0; k < before.count; ++k) {
      const auto part = load<width, aligned>(before[k] + at, n);
#pragma unroll
      for (int i = 0; i < width; ++i) sum.at[i] = part.at[i] + sum.at[i];
    }
    vector_of<To, width> rounded;
#pragma unroll
    for (int i = 0; i < width; ++i) rounded.at[i] = convert_element<To>(sum.at[i]);
    store<width, aligned>(to + at, rounded, n);
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::tree_sum, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, T* to, const std::vector<const T*>& parts, index_t n) {
    cuda_kit::reduce_parts<cuda_kit::sum_of_two>(ctx, to, parts, n);
  }
};

/// Adds a leaf to at most 64 subtrees.
template <>
struct kernel<op::merge_leaves, cuda> {
  template <class To, class C, class From>
  static void forward(context<cuda>& ctx, To* to, const std::vector<const C*>& before, const From* leaf, index_t n) {
    using namespace cuda_kit;
    if (n == 0) return;
    constexpr int width = vector_width<From>;
    const element_walk walk = walk_of<width>(n, to, before, std::vector<const From*>{leaf});
    part_table<C> table{};
    std::copy(before.begin(), before.end(), table.at);
    table.count = before.size();
    launch(ctx, &merge_leaves_kernel<To, C, From>, walk_blocks<width>(walk), block_threads, table, leaf, to, walk);
  }
};

}  // namespace gradus
