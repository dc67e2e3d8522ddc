#pragma once
// The CPU kernels of embedding.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "embedding.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

template <class T, class TX, class Id>
void embedding_rows(context<cpu>& ctx, T* y, const Id* tokens, const TX* table, index_t size, index_t rows,
                    index_t columns) {
  for (index_t i = 0; i < size; ++i) {
    if (!std::in_range<index_t>(tokens[i]) || static_cast<index_t>(tokens[i]) >= rows) [[unlikely]]
      throw error("embedding(tokens, table): token " + std::to_string(tokens[i]) + " at position " + std::to_string(i) +
                  " is outside 0 .. " + std::to_string(rows - 1));
  }
  for_rows(ctx, size, columns, 8192, [=](index_t i) {
    T* const to = y + i * columns;
    const TX* const from = table + static_cast<index_t>(tokens[i]) * columns;
    if constexpr (std::is_same_v<T, TX>) {
      std::memcpy(static_cast<void*>(to), from, columns * sizeof(T));
    } else {
      using C = compute_type<promote<T, TX>>;
      for_packs<C>(columns, [&](index_t k, auto which) { store(load<C>(from + k, which), to + k, which); });
    }
  });
}

// A task owns the tokens with certain last bits and a range of columns, and adds gradients in the tokens' order:
// repeated tokens yield the same sums for any thread count, and rows without tokens are not touched. A table of 16 bits
// is rounded once: the task then visits its tokens by value, with one sum for each.
template <class T, class TY, class Id>
void embedding_rows_backward(context<cpu>& ctx, T* dtable, bool accumulate, const TY* dy, const Id* tokens,
                             index_t size, index_t rows, index_t columns) {
  using C = compute_type<promote<T, TY>>;
  // More threads get more, narrower column ranges; the sums do not change.
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  const index_t width = threads > 4 ? 128 : 512;
  const index_t blocks = (columns + width - 1) / width;
  const index_t classes = std::bit_ceil(std::max<index_t>(16, 2 * threads));
  const auto is_in_class = [=](index_t i, index_t task) {
    return (static_cast<index_t>(tokens[i]) & (classes - 1)) == task % classes;
  };
  if (!accumulate)
    parallel_elements(ctx, rows * columns, 1 << 16, [&](index_t first, index_t last) {
      std::memset(static_cast<void*>(dtable + first), 0, (last - first) * sizeof(T));
    });
  if constexpr (!std::is_same_v<T, C>) {
    // Scratch of a task: its sum, then the positions of its tokens.
    constexpr index_t widest = 512;
    const index_t bytes = widest * sizeof(C) + size * sizeof(std::uint32_t);
    parallel_tasks(ctx, blocks * classes, bytes, [&](index_t task, void* memory) {
      auto* const sum = static_cast<C*>(memory);
      auto* const places = reinterpret_cast<std::uint32_t*>(sum + widest);
      const index_t first = task / classes * width;
      const index_t count = std::min(width, columns - first);
      index_t n = 0;
      for (index_t i = 0; i < size; ++i)
        if (is_in_class(i, task)) places[n++] = static_cast<std::uint32_t>(i);
      std::sort(places, places + n, [&](std::uint32_t a, std::uint32_t b) {
        return tokens[a] != tokens[b] ? tokens[a] < tokens[b] : a < b;
      });
      for (index_t i = 0; i < n;) {
        const auto token = static_cast<index_t>(tokens[places[i]]);
        T* const to = dtable + token * columns + first;
        for (index_t k = 0; k < count; ++k) sum[k] = static_cast<C>(to[k]);
        for (; i < n && static_cast<index_t>(tokens[places[i]]) == token; ++i) {
          const TY* const from = dy + places[i] * columns + first;
          for_packs<C>(count, [&](index_t k, auto which) { put(load<C>(from + k, which), sum + k, true, which); });
        }
        for_packs<C>(count, [&](index_t k, auto which) { store(load<C>(sum + k, which), to + k, which); });
      }
    });
  } else {
    parallel_tasks(ctx, blocks * classes, [&](index_t task) {
      const index_t first = task / classes * width;
      const index_t count = std::min(width, columns - first);
      for (index_t i = 0; i < size; ++i) {
        if (!is_in_class(i, task)) continue;
        const TY* const from = dy + i * columns + first;
        T* const to = dtable + static_cast<index_t>(tokens[i]) * columns + first;
        for_packs<C>(count, [&](index_t k, auto which) { put(load<C>(from + k, which), to + k, true, which); });
      }
    });
  }
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::embedding, cpu> {
  template <class T, class Id, class TX>
  static void forward(context<cpu>& ctx, matrix_extents of, matrix_extents in, T* y, const Id* tokens,
                      const TX* table) {
    cpu_kit::embedding_rows(ctx, y, tokens, table, of.rows, in.rows, in.columns);
  }
  template <class T, class TY, class Id>
  static void backward(context<cpu>& ctx, matrix_extents of, matrix_extents in, T* dtable, bool accumulate,
                       const TY* dy, const Id* tokens) {
    cpu_kit::embedding_rows_backward(ctx, dtable, accumulate, dy, tokens, of.rows, in.rows, in.columns);
  }
};

}  // namespace gradus
