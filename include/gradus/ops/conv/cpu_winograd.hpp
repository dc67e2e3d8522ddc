#pragma once
// Convolutions of 3 x 3 filters at stride 1 by Winograd's F(2 x 2, 3 x 3): a tile of 2 x 2 results takes 16 products
// instead of 36 (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/gemm_packed.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "../../cpu/transpose.hpp"
#include "options.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Images [batch, channels, high, wide] and results [batch, filters, high_y, wide_y] of such a convolution.
struct winograd_sizes {
  index_t batch, channels, filters;
  index_t high, wide, high_y, wide_y;
  index_t above, left;  ///< padding

  index_t tiles_y() const { return (high_y + 1) / 2; }
  index_t tiles_x() const { return (wide_y + 1) / 2; }
  index_t tiles() const { return batch * tiles_y() * tiles_x(); }
  /// That of the convolution itself,
  explicit winograd_sizes(const gradus::detail::conv_sizes& s)
      : batch(s.batch),
        channels(s.channels),
        filters(s.filters),
        high(s.y.in),
        wide(s.x.in),
        high_y(s.y.out),
        wide_y(s.x.out),
        above(s.y.padding),
        left(s.x.padding) {}
  /// and that of its gradient for the images, a convolution with the turned filters.
  winograd_sizes back() const {
    winograd_sizes b = *this;
    std::swap(b.channels, b.filters);
    std::swap(b.high, b.high_y);
    std::swap(b.wide, b.wide_y);
    b.above = 2 - above;
    b.left = 2 - left;
    return b;
  }
};

namespace detail {
// The even (First = 0) or odd (1) lanes of a and b.
template <std::size_t First, class Vector, std::size_t... I>
GRADUS_INLINE void every_other(const Vector& a, const Vector& b, Vector& to, std::index_sequence<I...>) {
  constexpr std::size_t n = sizeof...(I);
  to = Vector{(2 * I + First < n ? a[(2 * I + First) % n] : b[(2 * I + First) % n])...};
}
// The lanes of a from the second on, then lane First of b.
template <std::size_t First, class Vector, std::size_t... I>
GRADUS_INLINE void next_lanes(const Vector& a, const Vector& b, Vector& to, std::index_sequence<I...>) {
  to = Vector{(I + 1 < sizeof...(I) ? a[(I + 1) % sizeof...(I)] : b[First])...};
}
}  // namespace detail

/// Tiles of T, in the lanes of registers; for each of the 16 points of the transformed tiles a matrix product.
template <class T>
class winograd : packed_gemm<T, native_gemm_registers.rows, native_gemm_registers.across, native_gemm_registers.bytes> {
  using base = packed_gemm<T, native_gemm_registers.rows, native_gemm_registers.across, native_gemm_registers.bytes>;
  using base::strip, base::short_strip, base::tile_rows, base::tile_columns, base::width;
  using typename base::vector;
  static constexpr index_t points = 16;
  static constexpr auto all = std::make_index_sequence<width>{};

 public:
  /// Transforms filters [filters, channels, 3, 3], or with `back` those of the gradient: for each point the strips of
  /// rows that the product takes.
  static void turn_filters(context<cpu>& ctx, const winograd_sizes& s, T* to, const T* w, bool back) {
    const index_t strips = count_strips(s.filters), stride = strips * s.channels * strip;
    parallel_tasks(ctx, strips, [=](index_t number) {
      index_t first = 0, rows = base::next_strip_rows(s.filters);
      for (index_t i = 0; i < number; ++i) first += rows, rows = base::next_strip_rows(s.filters - first);
      for (index_t c = 0; c < s.channels; ++c) {
        T taps[9][strip] = {};
        for (index_t r = 0; r < rows; ++r) {
          const T* const from = w + (back ? c * s.filters + first + r : (first + r) * s.channels + c) * 9;
          for (index_t k = 0; k < 9; ++k) taps[k][r] = from[back ? 8 - k : k];
        }
        T half[4][3][strip];  // G g
        for (index_t x = 0; x < 3; ++x) spread(taps[x], taps[3 + x], taps[6 + x], half[0][x], 3 * strip);
        for (index_t y = 0; y < 4; ++y)  // G g G^T
          spread(half[y][0], half[y][1], half[y][2], to + 4 * y * stride + (number * s.channels + c) * strip, stride);
      }
    });
  }

  /// y (+)= the convolution of x with turned filters, plus a bias per filter if it is not null.
  template <class TB>
  static void convolve(context<cpu>& ctx, const winograd_sizes& s, T* y, bool accumulate, const T* x, const T* turned,
                       const TB* bias) {
    const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
    const index_t panels = (s.tiles() + tile_columns - 1) / tile_columns;
    const index_t columns = std::clamp<index_t>(panels / threads, 1, 4) * tile_columns;  // of a task
    const index_t from_stride = s.channels * columns + width, to_stride = s.filters * columns + width;
    const index_t strips = count_strips(s.filters);
    parallel_tasks(ctx, (s.tiles() + columns - 1) / columns, points * (from_stride + to_stride) * sizeof(T),
                   [&](index_t task, void* memory) {
                     T* const from = static_cast<T*>(memory);
                     T* const to = from + points * from_stride;
                     const index_t first = task * columns, count = std::min(columns, s.tiles() - first);
                     read_tiles(s, x, first, count, from, from_stride);
                     for (index_t point = 0; point < points; ++point) {
                       index_t row = 0;
                       for (index_t i = 0; i < strips; ++i) {
                         const index_t rows = base::next_strip_rows(s.filters - row);
                         multiply(rows, count, s.channels, turned + (point * strips + i) * s.channels * strip,
                                  from + point * from_stride, to + point * to_stride + row * columns, columns);
                         row += rows;
                       }
                     }
                     write_tiles(s, y, accumulate, bias, first, count, to, to_stride, columns);
                   });
  }

 private:
  static index_t count_strips(index_t rows) {
    index_t n = 0;
    for (; rows > 0; ++n) rows -= base::next_strip_rows(rows);
    return n;
  }
  static GRADUS_INLINE void spread(const T* a, const T* b, const T* c, T* to, index_t stride) {
    for (index_t r = 0; r < strip; ++r) {
      const T sum = (a[r] + c[r]) * T(0.5), middle = b[r] * T(0.5);
      to[r] = a[r];
      to[stride + r] = sum + middle;
      to[2 * stride + r] = sum - middle;
      to[3 * stride + r] = c[r];
    }
  }
  static void multiply(index_t rows, index_t count, index_t terms, const T* a, T* b, T* c, index_t stride) {
    const auto run = rows > short_strip ? &base::template multiply_strip<true, tile_rows, T>
                                        : &base::template multiply_strip<true, short_strip, T>;
    run(rows, count, terms, {{}, const_cast<T*>(a), {}}, {{}, 0, b, terms}, {}, c, stride);
  }

  // Calls f(image, y, x, n, column) for runs of n tiles in a row, which a register and a panel hold.
  template <class F>
  static GRADUS_INLINE void for_runs(const winograd_sizes& s, index_t first, index_t count, const F& f) {
    const index_t wide = s.tiles_x(), high = s.tiles_y();
    index_t x = first % wide, y = first / wide % high, image = first / wide / high;
    for (index_t column = 0, n; column < count; column += n) {
      n = std::min({wide - x, width - column % width, count - column});
      f(image, y, x, n, column);
      x += n;
      if (x < wide) continue;
      x = 0;
      if (++y < high) continue;
      y = 0;
      ++image;
    }
  }
  // A mask of the lanes whose columns x .. x + width - 1 are 0 .. wide - 1.
  static std::uint32_t lanes_inside(std::ptrdiff_t x, index_t wide) {
    std::uint32_t mask = 0;
    for (index_t l = 0; l < width; ++l)
      if (static_cast<index_t>(x + static_cast<std::ptrdiff_t>(l)) < wide) mask |= std::uint32_t{1} << l;
    return mask;
  }

  // B^T d B of all channels' tiles d, in panels of the products' right operands.
  static void read_tiles(const winograd_sizes& s, const T* x, index_t first, index_t count, T* to, index_t stride) {
    for_runs(s, first, count, [&](index_t image, index_t ty, index_t tx, index_t n, index_t column) {
      const auto left = static_cast<std::ptrdiff_t>(2 * tx) - static_cast<std::ptrdiff_t>(s.left);
      const auto top = static_cast<std::ptrdiff_t>(2 * ty) - static_cast<std::ptrdiff_t>(s.above);
      std::uint32_t masks[4][3] = {};
      for (index_t j = 0; j < 3; ++j) {
        const std::uint32_t inside = lanes_inside(left + static_cast<std::ptrdiff_t>(j * width), s.wide);
        for (index_t i = 0; i < 4; ++i)
          if (static_cast<index_t>(top + static_cast<std::ptrdiff_t>(i)) < s.high)
            masks[i][j] = j < 2 ? inside : inside & 3u;
      }
      const T* from = x + static_cast<std::ptrdiff_t>(image * s.channels * s.high * s.wide) +
                      top * static_cast<std::ptrdiff_t>(s.wide) + left;
      T* at = to + column / tile_columns * tile_columns * s.channels + column % tile_columns;
      for (index_t c = 0; c < s.channels; ++c, from += s.high * s.wide, at += tile_columns) {
        vector d[4][3];
        for (index_t i = 0; i < 4; ++i)
          for (index_t j = 0; j < 3; ++j) load_lanes(from + i * s.wide + j * width, masks[i][j], d[i][j]);
        vector rows[4][3];
        for (index_t j = 0; j < 3; ++j)
          transform(d[0][j], d[1][j], d[2][j], d[3][j], rows[0][j], rows[1][j], rows[2][j], rows[3][j]);
        for (index_t i = 0; i < 4; ++i) {
          vector e0, o0, e1, o1, r[4];
          detail::every_other<0>(rows[i][0], rows[i][1], e0, all);
          detail::every_other<1>(rows[i][0], rows[i][1], o0, all);
          detail::next_lanes<0>(e0, rows[i][2], e1, all);
          detail::next_lanes<1>(o0, rows[i][2], o1, all);
          transform(e0, o0, e1, o1, r[0], r[1], r[2], r[3]);
          for (index_t j = 0; j < 4; ++j) pack<T>(r[j]).store(at + (4 * i + j) * stride, n);
        }
      }
    });
  }
  static GRADUS_INLINE void transform(const vector& a, const vector& b, const vector& c, const vector& d, vector& w,
                                      vector& x, vector& y, vector& z) {
    w = a - c;
    x = b + c;
    y = c - b;
    z = b - d;
  }
  static GRADUS_INLINE void load_lanes(const T* from, std::uint32_t mask, vector& to) {
    typename vector_of<detail::word_of<T>, width>::type words;
    read_lanes<width>(from, mask, words);
    std::memcpy(&to, &words, sizeof to);
  }

  // A^T m A of the products m.
  template <class TB>
  static void write_tiles(const winograd_sizes& s, T* y, bool accumulate, const TB* bias, index_t first, index_t count,
                          const T* from, index_t stride, index_t columns) {
    for_runs(s, first, count, [&](index_t image, index_t ty, index_t tx, index_t n, index_t column) {
      const index_t there = std::min(2 * n, s.wide_y - 2 * tx), rows = std::min<index_t>(2, s.high_y - 2 * ty);
      T* to = y + (image * s.filters * s.high_y + 2 * ty) * s.wide_y + 2 * tx;
      const T* at = from + column;
      for (index_t o = 0; o < s.filters; ++o, at += columns, to += s.high_y * s.wide_y) {
        vector p[2][4];
        for (index_t j = 0; j < 4; ++j) {
          const vector a = base::load(at + j * stride), b = base::load(at + (4 + j) * stride),
                       c = base::load(at + (8 + j) * stride), d = base::load(at + (12 + j) * stride);
          p[0][j] = a + b + c;
          p[1][j] = b - c - d;
        }
        const T shift = bias != nullptr ? static_cast<T>(bias[o]) : T(0);
        for (index_t i = 0; i < rows; ++i) {
          const vector even = p[i][0] + p[i][1] + p[i][2] + shift, odd = p[i][1] - p[i][2] - p[i][3] + shift;
          vector low, high;
          detail::riffle<0>(even, odd, low, all);
          detail::riffle<width / 2>(even, odd, high, all);
          put(pack<T>(low), to + i * s.wide_y, accumulate, first_lanes{there});
          if (there > width) put(pack<T>(high), to + i * s.wide_y + width, accumulate, first_lanes{there - width});
        }
      }
    });
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
