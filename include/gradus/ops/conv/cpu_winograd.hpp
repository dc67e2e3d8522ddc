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
  /// The sizes of the convolution itself.
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
  /// The sizes of its gradient for the images, a convolution with the turned filters.
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
// The lanes of a from the second on, then lane First of b.
template <std::size_t First, class Vector, std::size_t... Is>
GRADUS_INLINE void next_lanes(const Vector& a, const Vector& b, Vector& to, std::index_sequence<Is...>) {
  to = Vector{(Is + 1 < sizeof...(Is) ? a[(Is + 1) % sizeof...(Is)] : b[First])...};
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
  /// Transforms filters [filters, channels, 3, 3], or with `back` the turned filters of the gradient: for each point
  /// the strips of rows that the product takes.
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
    parallel_tasks(ctx, (s.tiles() + columns - 1) / columns,
                   points * (from_stride + to_stride) * sizeof(T) + columns * sizeof(tile_run),
                   [&](index_t task, void* memory) {
                     T* const from = static_cast<T*>(memory);
                     T* const to = from + points * from_stride;
                     const index_t first = task * columns, count = std::min(columns, s.tiles() - first);
                     auto* const runs = reinterpret_cast<tile_run*>(to + points * to_stride);
                     const index_t run_count = list_runs(s, first, count, runs);
                     read_tiles(s, x, runs, run_count, from, from_stride);
                     for (index_t point = 0; point < points; ++point) {
                       index_t row = 0;
                       for (index_t i = 0; i < strips; ++i) {
                         const index_t rows = base::next_strip_rows(s.filters - row);
                         multiply(rows, count, s.channels, turned + (point * strips + i) * s.channels * strip,
                                  from + point * from_stride, to + point * to_stride + row * columns, columns);
                         row += rows;
                       }
                     }
                     write_tiles(s, y, accumulate, bias, runs, run_count, to, to_stride, columns);
                   });
  }

  /// w (+)= the gradient of the convolution of x for the gradient y of its result. `sums` has memory for the sums of
  /// each of `parts` parts of the tiles.
  template <class TW>
  static void correlate(context<cpu>& ctx, const winograd_sizes& s, index_t parts, TW* w, bool accumulate, const T* y,
                        const T* x, T* sums) {
    const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
    const index_t ranges =
        std::min((s.channels + 31) / 32, (threads + parts - 1) / parts);  // of channels: any, for bits
    const index_t most = base::part(s.channels, (s.channels + ranges - 1) / ranges, 1);
    const index_t of_x = most * tiles_at_once + width, of_y = s.filters * tiles_at_once + width;
    const index_t panels = (most + tile_columns - 1) / tile_columns * tile_columns * tiles_at_once;
    const std::size_t bytes =
        (points * (of_x + of_y) + panels + strip * base::depth) * sizeof(T) + tiles_at_once * sizeof(tile_run);
    parallel_tasks(ctx, parts * ranges, bytes, [&](index_t task, void* memory) {
      const index_t part = task / ranges, range = task % ranges;
      const index_t first = s.channels * range / ranges, channels = s.channels * (range + 1) / ranges - first;
      T* const left = static_cast<T*>(memory);
      T* const right = left + strip * base::depth;
      T* const tiles_x = right + panels;
      T* const tiles_y = tiles_x + points * of_x;
      auto* const runs = reinterpret_cast<tile_run*>(tiles_y + points * of_y);
      T* const to = sums + part * points * s.filters * s.channels + first;
      const index_t begin = s.tiles() * part / parts, end = s.tiles() * (part + 1) / parts;
      for (index_t tile = begin; tile < end; tile += tiles_at_once) {
        const index_t count = std::min(tiles_at_once, end - tile), run_count = list_runs(s, tile, count, runs);
        for (index_t c = 0; c < channels; ++c)
          for (const tile_run* r = runs; r != runs + run_count; ++r)
            read_run(x + (first + c) * s.high * s.wide + r->from, s.wide, s.high * s.wide, *r,
                     tiles_x + c * tiles_at_once + r->column, of_x);
        for (index_t o = 0; o < s.filters; ++o)
          for (const tile_run* r = runs; r != runs + run_count; ++r)
            read_results(y + o * s.high_y * s.wide_y + r->to, s.wide_y, s.high_y * s.wide_y, *r,
                         tiles_y + o * tiles_at_once + r->column, of_y);
        for (index_t point = 0; point < points; ++point) {
          base::pack_b(tiles_x + point * of_x, tiles_at_once, true, count, channels, right);
          T* c = to + point * s.filters * s.channels;
          for (index_t o = 0, rows; o < s.filters; o += rows, c += rows * s.channels) {
            rows = base::next_strip_rows(s.filters - o);
            base::template pack_a<false>(tiles_y + point * of_y + o * tiles_at_once, tiles_at_once, count, rows, left);
            const auto run = rows > short_strip ? &base::template multiply_strip<false, tile_rows, T>
                                                : &base::template multiply_strip<false, short_strip, T>;
            run(rows, channels, count, {{}, left, {}}, {{}, 0, right, count},
                tile > begin ? typename base::rows_of_t{c, s.channels} : typename base::rows_of_t{}, c, s.channels);
          }
        }
      }
    });
    add_parts(ctx, s, parts, w, accumulate, sums);
  }

 private:
  static constexpr index_t tiles_at_once = 128;

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

  // Tiles beside each other in a row of an image, as many as a register holds.
  struct tile_run {
    index_t column, count;    // in the matrix of tiles
    std::ptrdiff_t from;      // offset of the first element that they read, in the first channel
    std::uint32_t inside[3];  // of the next 2 * width + 2 elements of a row, those in the image
    bool has_row[4];
    index_t to, rows, wide;  // offset of their results, in the first filter, and how many there are
  };
  // The runs of tiles first .. first + count - 1; at most `count`.
  static index_t list_runs(const winograd_sizes& s, index_t first, index_t count, tile_run* runs) {
    const index_t wide = s.tiles_x(), high = s.tiles_y();
    index_t x = first % wide, y = first / wide % high, image = first / wide / high;
    tile_run* to = runs;
    for (index_t column = 0; column < count; column += to++->count) {
      const auto left = static_cast<std::ptrdiff_t>(2 * x) - static_cast<std::ptrdiff_t>(s.left);
      const auto top = static_cast<std::ptrdiff_t>(2 * y) - static_cast<std::ptrdiff_t>(s.above);
      const auto line = static_cast<std::ptrdiff_t>(s.wide);
      to->column = column;
      to->count = std::min({wide - x, width - column % width, count - column});
      to->from = static_cast<std::ptrdiff_t>(image * s.channels * s.high) * line + top * line + left;
      for (index_t j = 0; j < 3; ++j)
        to->inside[j] = lanes_inside(left + static_cast<std::ptrdiff_t>(j * width), s.wide);
      to->inside[2] &= 3u;
      for (index_t i = 0; i < 4; ++i)
        to->has_row[i] = static_cast<index_t>(top + static_cast<std::ptrdiff_t>(i)) < s.high;
      to->to = (image * s.filters * s.high_y + 2 * y) * s.wide_y + 2 * x;
      to->rows = std::min<index_t>(2, s.high_y - 2 * y);
      to->wide = std::min(2 * to->count, s.wide_y - 2 * x);
      x += to->count;
      if (x < wide) continue;
      x = 0;
      if (++y < high) continue;
      y = 0;
      ++image;
    }
    return static_cast<index_t>(to - runs);
  }
  // A mask of the lanes whose columns x .. x + width - 1 are 0 .. wide - 1.
  static std::uint32_t lanes_inside(std::ptrdiff_t x, index_t wide) {
    std::uint32_t mask = 0;
    for (index_t l = 0; l < width; ++l)
      if (static_cast<index_t>(x + static_cast<std::ptrdiff_t>(l)) < wide) mask |= std::uint32_t{1} << l;
    return mask;
  }

  // B^T d B of all channels' tiles d, in panels of the products' right operands. Channel after channel, whose rows the
  // next run reads again.
  static void read_tiles(const winograd_sizes& s, const T* x, const tile_run* runs, index_t count, T* to,
                         index_t stride) {
    for (index_t c = 0; c < s.channels; ++c, x += s.high * s.wide, to += tile_columns)
      for (const tile_run* r = runs; r != runs + count; ++r)
        read_run(x + r->from, s.wide, s.high * s.wide, *r,
                 to + r->column / tile_columns * tile_columns * s.channels + r->column % tile_columns, stride);
  }
  static GRADUS_INLINE void read_run(const T* from, index_t line, index_t plane, const tile_run& run, T* to,
                                     index_t stride) {
    vector d[4][3], rows[4][3];
    for (index_t i = 0; i < 4; ++i)
      for (index_t j = 0; j < 3; ++j) {
        if (i > 1 && j < 2) __builtin_prefetch(from + plane + i * line + j * width);
        load_lanes(from + i * line + j * width, run.has_row[i] ? run.inside[j] : 0, d[i][j]);
      }
    for (index_t j = 0; j < 3; ++j)
      transform(d[0][j], d[1][j], d[2][j], d[3][j], rows[0][j], rows[1][j], rows[2][j], rows[3][j]);
    for (index_t i = 0; i < 4; ++i) {
      vector even, odd, next_even, next_odd, r[4];
      detail::every_other<0>(rows[i][0], rows[i][1], even, all);
      detail::every_other<1>(rows[i][0], rows[i][1], odd, all);
      detail::next_lanes<0>(even, rows[i][2], next_even, all);
      detail::next_lanes<1>(odd, rows[i][2], next_odd, all);
      transform(even, odd, next_even, next_odd, r[0], r[1], r[2], r[3]);
      for (index_t j = 0; j < 4; ++j) pack<T>(r[j]).store(to + (4 * i + j) * stride, run.count);
    }
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

  // A d A^T of the gradients d of tiles.
  static GRADUS_INLINE void read_results(const T* from, index_t line, index_t plane, const tile_run& run, T* to,
                                         index_t stride) {
    vector z[4][2];
    for (index_t i = 0; i < 2; ++i) {
      vector low{}, high{};
      if (i < run.rows) {
        low = cpu_kit::load<T>(from + i * line, first_lanes{run.wide}).v;
        if (run.wide > width) high = cpu_kit::load<T>(from + i * line + width, first_lanes{run.wide - width}).v;
        __builtin_prefetch(from + plane + i * line);
        __builtin_prefetch(from + plane + i * line + width);
      }
      detail::every_other<0>(low, high, z[i == 0 ? 0 : 3][0], all);
      detail::every_other<1>(low, high, z[i == 0 ? 0 : 3][1], all);
    }
    for (index_t j = 0; j < 2; ++j) {
      z[1][j] = z[0][j] + z[3][j];
      z[2][j] = z[0][j] - z[3][j];
      z[3][j] = -z[3][j];
    }
    for (index_t i = 0; i < 4; ++i) {
      T* const at = to + 4 * i * stride;
      pack<T>(z[i][0]).store(at, run.count);
      pack<T>(z[i][0] + z[i][1]).store(at + stride, run.count);
      pack<T>(z[i][0] - z[i][1]).store(at + 2 * stride, run.count);
      pack<T>(-z[i][1]).store(at + 3 * stride, run.count);
    }
  }
  // w (+)= G^T p G of the sums p of all parts.
  template <class TW>
  static void add_parts(context<cpu>& ctx, const winograd_sizes& s, index_t parts, TW* w, bool accumulate,
                        const T* sums) {
    const index_t channels = s.channels, point = s.filters * channels;
    for_rows(ctx, s.filters, 9 * channels, 1 << 13, [=](index_t o) {
      for_packs<T>(channels, [&](index_t c, auto which) {
        pack<T> p[4][4], half[3][4];
        for (index_t i = 0; i < points; ++i) {
          const T* const from = sums + i * point + o * channels + c;
          p[i / 4][i % 4] = cpu_kit::load<T>(from, which);
          for (index_t n = 1; n < parts; ++n)
            p[i / 4][i % 4] = p[i / 4][i % 4] + cpu_kit::load<T>(from + n * points * point, which);
        }
        for (index_t j = 0; j < 4; ++j) join(p[0][j], p[1][j], p[2][j], p[3][j], half[0][j], half[1][j], half[2][j]);
        T taps[9][width];
        for (index_t i = 0; i < 3; ++i) {
          pack<T> g[3];
          join(half[i][0], half[i][1], half[i][2], half[i][3], g[0], g[1], g[2]);
          for (index_t j = 0; j < 3; ++j) g[j].store(taps[3 * i + j]);
        }
        TW* const to = w + (o * channels + c) * 9;
        for (index_t l = 0; l < std::min(width, channels - c); ++l)
          for (index_t k = 0; k < 9; ++k)
            to[9 * l + k] = convert_element<TW>(accumulate ? taps[k][l] + static_cast<T>(to[9 * l + k]) : taps[k][l]);
      });
    });
  }
  static GRADUS_INLINE void join(pack<T> a, pack<T> b, pack<T> c, pack<T> d, pack<T>& x, pack<T>& y, pack<T>& z) {
    const pack<T> sum = (b + c) * pack<T>(T(0.5));
    x = a + sum;
    y = (b - c) * pack<T>(T(0.5));
    z = sum + d;
  }

  // A^T m A of the products m.
  template <class TB>
  static void write_tiles(const winograd_sizes& s, T* y, bool accumulate, const TB* bias, const tile_run* runs,
                          index_t count, const T* from, index_t stride, index_t columns) {
    for (index_t o = 0; o < s.filters; ++o, from += columns, y += s.high_y * s.wide_y) {
      const T shift = bias != nullptr ? static_cast<T>(bias[o]) : T(0);
      for (const tile_run* r = runs; r != runs + count; ++r)
        write_run(from + r->column, stride, shift, *r, y + r->to, s.wide_y, accumulate);
    }
  }
  static GRADUS_INLINE void write_run(const T* from, index_t stride, T shift, const tile_run& run, T* to, index_t line,
                                      bool accumulate) {
    vector p[2][4];
    for (index_t j = 0; j < 4; ++j) {
      const vector a = base::load(from + j * stride), b = base::load(from + (4 + j) * stride),
                   c = base::load(from + (8 + j) * stride), d = base::load(from + (12 + j) * stride);
      p[0][j] = a + b + c;
      p[1][j] = b - c - d;
    }
    for (index_t i = 0; i < run.rows; ++i, to += line) {
      const vector even = p[i][0] + p[i][1] + p[i][2] + shift, odd = p[i][1] - p[i][2] - p[i][3] + shift;
      vector low, high;
      detail::riffle<0>(even, odd, low, all);
      detail::riffle<width / 2>(even, odd, high, all);
      put(pack<T>(low), to, accumulate, first_lanes{run.wide});
      if (run.wide > width) put(pack<T>(high), to + width, accumulate, first_lanes{run.wide - width});
    }
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
