#pragma once
#include <algorithm>
#include <array>
#include <cstring>

#include "../../cpu/parallel.hpp"
#include "../../cpu/transpose.hpp"
#include "../../cpu/rows.hpp"
#include "permute.hpp"

namespace gradus {

/// Where the last axis stays last, rows are copied; elsewhere tiles of the two axes that are innermost on either side
/// are exchanged, so that both sides are read and written by whole cache lines.
template <index_t... Order>
struct kernel<op::permute<Order...>, cpu> {
  template <class T, class To, class From>
  static void forward(context<cpu>& ctx, view<T, To> to, view<const T, From> from, bool accumulate) {
    constexpr index_t rank = To::rank;
    if constexpr (rank == 0) {
      put_run(to.data(), from.data(), 1, accumulate);
    } else {
      constexpr std::array<index_t, rank> order{Order...};
      constexpr index_t last = rank - 1;
      constexpr index_t columns = To::extents[last];
      if constexpr (order[last] == last) {
        constexpr index_t rows = To::size / columns;
        cpu_kit::parallel_elements(ctx, rows, std::max<index_t>(1, grain / columns), [&](index_t first, index_t end) {
          for (index_t r = first; r < end; ++r) {
            const T* source = from.data() + start<To, From>(r * columns);
            T* target = to.data() + r * columns;
            put_run(target, source, columns, accumulate);
          }
        });
      } else {
        constexpr index_t moved = place_of(last);  // the output's axis that is innermost in the input
        constexpr index_t rows = To::extents[moved];
        constexpr index_t row_stride = To::stride(static_cast<std::ptrdiff_t>(moved));
        constexpr index_t column_stride = From::stride(static_cast<std::ptrdiff_t>(order[last]));
        constexpr index_t between = row_stride / columns;          // positions of the axes between the two
        constexpr index_t outer = To::size / (rows * row_stride);  // and of those before them
        constexpr index_t strips = (rows + tile - 1) / tile;
        cpu_kit::parallel_elements(
            ctx, outer * between * strips, std::max<index_t>(1, grain / (tile * columns)),
            [&](index_t first, index_t end) {
              for (index_t s = first; s < end; ++s) {
                const index_t matrix = s / strips;
                const index_t r0 = s % strips * tile;
                const index_t r1 = std::min(rows, r0 + tile);
                const index_t target = matrix / between * rows * row_stride + matrix % between * columns;
                const T* in = from.data() + start<To, From>(target);
                T* out = to.data() + target;
                for (index_t c0 = 0; c0 < columns; c0 += tile) {
                  const index_t width = std::min(columns, c0 + tile) - c0;
                  const T* source = in + c0 * column_stride + r0;
                  T buffer[tile * tile];  // lines far apart share few places in the cache: touch each once
                  for (index_t c = 0; c < width; ++c) {
                    if (c0 + tile + c < columns) fetch_run<false>(source + (tile + c) * column_stride);
                    copy_run(buffer + c * tile, source + c * column_stride, r1 - r0);
                  }
                  cpu_kit::transpose_tile<tile>(buffer);
                  for (index_t r = r0; r < r1; ++r) {
                    if (c0 + tile < columns) fetch_run<true>(out + r * row_stride + c0 + tile);
                    put_run(out + r * row_stride + c0, buffer + (r - r0) * tile, width, accumulate);
                  }
                }
              }
            });
      }
    }
  }

 private:
  static constexpr index_t tile = 64;
  static constexpr index_t grain = 1 << 14;

  static constexpr index_t place_of(index_t axis) { return op::permute<Order...>::place_of(axis); }
  // Offset in the input of the element at `offset` in the output.
  template <class To, class From>
  static index_t start(index_t offset) {
    constexpr std::array<index_t, To::rank> order{Order...};
    index_t source = 0;
    for (index_t i = To::rank; i-- > 0;) {
      source += offset % To::extents[i] * From::stride(static_cast<std::ptrdiff_t>(order[i]));
      offset /= To::extents[i];
    }
    return source;
  }
  // What the next tile reads and writes: rows so far apart that no processor foresees them.
  template <bool ToWrite, class T>
  static GRADUS_INLINE void fetch_run(const T* at) {
    constexpr index_t line = 64 / sizeof(T);
    for (index_t i = 0; i < tile; i += line) __builtin_prefetch(at + i, ToWrite ? 1 : 0);
  }
  template <class T>
  static GRADUS_INLINE void copy_run(T* to, const T* from, index_t n) {
    if (n == tile) std::memcpy(static_cast<void*>(to), from, tile * sizeof(T));  // no call
    else std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
  }
  template <class T>
  static void put_run(T* to, const T* from, index_t n, [[maybe_unused]] bool accumulate) {
    if constexpr (is_floating<T>) {
      using C = compute_type<T>;
      if (accumulate) {
        cpu_kit::for_packs<C>(n,
                              [&](index_t i, auto k) { cpu_kit::put(cpu_kit::load<C>(from + i, k), to + i, true, k); });
        return;
      }
    }
    copy_run(to, from, n);  // what is no float has no gradient to accumulate
  }
};

}  // namespace gradus
