#pragma once
// The CPU kernel of permute.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/transpose.hpp"
#include "permute.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// A permutation: the output's extents, and the input's strides along its axes, up to `rank` axes.
template <index_t Most>
struct permuted_axes {
  index_t rank = 0;
  index_t extent[Most] = {};
  index_t stride[Most] = {};

  /// The input's offset of the element at `offset` in the output.
  index_t source(index_t offset) const {
    index_t found = 0;
    for (index_t i = rank; i-- > 0; offset /= extent[i]) found += offset % extent[i] * stride[i];
    return found;
  }
  index_t size() const {
    index_t n = 1;
    for (index_t i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
};

/// Copies a run, or adds it; only floating-point elements are added.
template <class T>
void put_run(T* to, const T* from, index_t n, [[maybe_unused]] bool accumulate) {
  if constexpr (is_floating<T>) {
    using C = compute_type<T>;
    if (accumulate)
      return for_packs<C>(n, [&](index_t i, auto which) { put(load<C>(from + i, which), to + i, true, which); });
  }
  std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
}

/// Prefetches the next tile's lines, which are too far apart for hardware prefetchers.
template <bool ToWrite, index_t Tile, class T>
GRADUS_INLINE void fetch_run(const T* at) {
  constexpr index_t line = 64 / sizeof(T);
  for (index_t i = 0; i < Tile; i += line) __builtin_prefetch(at + i, ToWrite ? 1 : 0);
}

/// If the last axis stays last, copies rows; otherwise exchanges tiles of the two axes that are innermost on either
/// side, by whole cache lines. `moved` is the output's axis that is innermost in the input.
template <class T, index_t Most>
void permute_axes(context<cpu>& ctx, T* to, const T* from, const permuted_axes<Most>& axes, index_t moved,
                  bool accumulate) {
  constexpr index_t tile = 64, grain = 1 << 14;
  const index_t last = axes.rank - 1, columns = axes.extent[last], size = axes.size();
  if (moved == last)
    return for_rows(ctx, size / columns, columns, grain, [&](index_t r) {
      put_run(to + r * columns, from + axes.source(r * columns), columns, accumulate);
    });
  const index_t rows = axes.extent[moved];
  index_t row_stride = 1;
  for (index_t i = moved + 1; i <= last; ++i) row_stride *= axes.extent[i];
  const index_t column_stride = axes.stride[last];
  const index_t between = row_stride / columns;  // positions along the axes between the two
  const index_t strips = (rows + tile - 1) / tile;
  for_rows(ctx, size / (rows * columns) * strips, tile * columns, grain, [=, &axes](index_t s) {
    const index_t matrix = s / strips, width_of_all = columns;
    const index_t r0 = s % strips * tile, r1 = std::min(rows, r0 + tile);
    const index_t target = matrix / between * rows * row_stride + matrix % between * columns;
    const T* const in = from + axes.source(target);
    T* const out = to + target;
    for (index_t c0 = 0; c0 < width_of_all; c0 += tile) {
      const index_t width = std::min(width_of_all, c0 + tile) - c0;
      const T* const source = in + c0 * column_stride + r0;
      T buffer[tile * tile];               // distant lines conflict in the cache: access each once
      const auto move = [&](auto whole) {  // for a whole tile the compiler knows the lengths
        const index_t height = whole ? tile : r1 - r0, length = whole ? tile : width;
        for (index_t c = 0; c < length; ++c) {
          if (c0 + tile + c < width_of_all) fetch_run<false, tile>(source + (tile + c) * column_stride);
          std::memcpy(static_cast<void*>(buffer + c * tile), source + c * column_stride, height * sizeof(T));
        }
        transpose_tile<tile>(buffer);
        for (index_t r = 0; r < height; ++r) {
          T* const row = out + (r0 + r) * row_stride + c0;
          if (c0 + tile < width_of_all) fetch_run<true, tile>(row + tile);
          put_run(row, buffer + r * tile, length, accumulate);
        }
      };
      if (r1 - r0 == tile && width == tile) move(std::true_type{});
      else move(std::false_type{});
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <index_t... Order>
struct kernel<op::permute<Order...>, cpu> {
  template <class T, class To, class From>
  static void forward(context<cpu>& ctx, view<T, To> to, view<const T, From> from, bool accumulate) {
    constexpr index_t rank = To::rank;
    if constexpr (rank == 0) {
      cpu_kit::put_run(to.data(), from.data(), 1, accumulate);
    } else {
      cpu_kit::permuted_axes<std::max<index_t>(8, rank)> axes{
          rank, {}, {from.extents().stride(static_cast<std::ptrdiff_t>(Order))...}};
      std::copy_n(to.extents().extents.begin(), rank, axes.extent);
      cpu_kit::permute_axes(ctx, to.data(), from.data(), axes, op::permute<Order...>::place_of(rank - 1), accumulate);
    }
  }
};

}  // namespace gradus
