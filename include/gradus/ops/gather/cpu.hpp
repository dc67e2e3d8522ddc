#pragma once
// The CPU kernels of gather, index_select, scatter_add and one_hot.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/rows.hpp"
#include "gather.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

[[noreturn]] GRADUS_NOINLINE inline void fail_index(std::string_view op, const std::string& index, index_t position,
                                                    index_t rows) {
  throw error(std::string(op) + ": index " + index + " at position " + std::to_string(position) + " is outside 0 .. " +
              std::to_string(rows - 1));
}

template <class T, class Id>
void copy_indexed(context<cpu>& ctx, T* y, const T* x, const Id* indices, indexed_move move) {
  for_rows(ctx, move.outer * move.count, move.inner, 8192, [=](index_t row) {
    const index_t inner = move.inner, block = row / move.count;
    const T* const from = x + block * move.rows * inner;
    T* const to = y + row * inner;
    if (move.each) {
      const Id* const at = indices + row * inner;
      for (index_t k = 0; k < inner; ++k) to[k] = from[static_cast<index_t>(at[k]) * inner + k];
    } else {
      const auto at = static_cast<index_t>(indices[row - block * move.count]);
      std::memcpy(static_cast<void*>(to), from + at * inner, inner * sizeof(T));
    }
  });
}

// A task owns some columns of some blocks, and adds to each element in the order of `from`.
template <class C, class T, class Id>
void add_indexed(context<cpu>& ctx, C* to, const T* from, const Id* indices, indexed_move move) {
  const index_t width = std::min<index_t>(move.inner, 512), strips = (move.inner + width - 1) / width;
  const index_t grain = std::max<index_t>(1, 8192 / (move.count * width));
  parallel_elements(ctx, move.outer * strips, grain, [=](index_t begin, index_t end) {
    const index_t inner = move.inner;
    const auto add = [](C& sum, const T& value) {
      if constexpr (std::is_integral_v<C>) sum = math::wrapping_add(sum, static_cast<C>(value));
      else sum += static_cast<C>(value);
    };
    for (index_t task = begin; task < end; ++task) {
      const index_t block = task / strips, first = task % strips * width, last = std::min(inner, first + width);
      C* const sums = to + block * move.rows * inner;
      for (index_t i = 0; i < move.count; ++i) {
        const index_t row = block * move.count + i;
        const T* const values = from + row * inner;
        if (move.each) {
          const Id* const at = indices + row * inner;
          for (index_t k = first; k < last; ++k) add(sums[static_cast<index_t>(at[k]) * inner + k], values[k]);
        } else {
          C* const sum = sums + static_cast<index_t>(indices[i]) * inner;
          for (index_t k = first; k < last; ++k) add(sum[k], values[k]);
        }
      }
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::move_indexed, cpu> {
  template <class T, class Id>
  static void forward(context<cpu>& ctx, T* y, const T* x, const Id* indices, indexed_move move) {
    cpu_kit::copy_indexed(ctx, y, x, indices, move);
  }
  template <class C, class T, class Id>
  static void backward(context<cpu>& ctx, C* to, const T* from, const Id* indices, indexed_move move) {
    cpu_kit::add_indexed(ctx, to, from, indices, move);
  }
};

template <>
struct kernel<op::check_indices, cpu> {
  template <class Id>
  static void forward(std::string_view op, const Id* indices, index_t count, index_t rows) {
    for (index_t i = 0; i < count; ++i)
      if (!std::in_range<index_t>(indices[i]) || static_cast<index_t>(indices[i]) >= rows) [[unlikely]]
        cpu_kit::fail_index(op, std::to_string(indices[i]), i, rows);
  }
};

template <index_t Classes, class T>
struct kernel<op::one_hot<Classes, T>, cpu> {
  template <class Id>
  static void forward(context<cpu>& ctx, T* y, const Id* indices, index_t count) {
    cpu_kit::for_rows(ctx, count, Classes, 8192, [=](index_t row) {
      T* const to = y + row * Classes;
      std::fill(to, to + Classes, T(0));
      to[static_cast<index_t>(indices[row])] = T(1);
    });
  }
};

}  // namespace gradus
