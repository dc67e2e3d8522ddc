#pragma once
// The CUDA kernels of convolutions: products by cuBLASLt with the patches of a chunk of images, in a matrix of bounded
// size; groups of channels directly, one result per thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "../../gpu/gemm_cublaslt.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/rows.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/workspace.hpp"
#include "../broadcast/cuda.hpp"
#include "conv.hpp"

namespace gradus {

namespace cuda_kit {

/// A number of positions, elements or sizes as kernels take it, which divide numbers below 2^31. Throws error.
inline std::uint32_t conv_count(index_t n) {
  if (n >= index_t{1} << 31)
    throw error("conv: a GPU takes fewer than 2^31 positions (images x height x width) per call, here " +
                std::to_string(n) + "; split the batch");
  return static_cast<std::uint32_t>(n);
}

/// One axis of a convolution, as kernels take it.
struct conv_line {
  std::uint32_t kernel, stride, padding, dilation;
  divisor<std::uint32_t> by_stride;

  explicit conv_line(const gradus::detail::conv_axis& a)
      : kernel(conv_count(a.kernel)),
        stride(conv_count(a.stride)),
        padding(conv_count(a.padding)),
        dilation(conv_count(a.dilation)),
        by_stride(stride) {}

  /// The element of the image that tap `tap` of a position reads, or, Back, the position whose tap `tap` reads an
  /// element; a number beyond the axis if there is none. Unit: stride and dilation are 1, and taps may be below 0.
  template <bool Back, bool Unit>
  __device__ std::uint32_t other(std::uint32_t at, std::uint32_t tap) const {
    if constexpr (!Back) return (Unit ? at : at * stride) + (Unit ? tap : tap * dilation) - padding;  // wraps below 0
    else if constexpr (Unit) return at + padding - tap;
    else {
      std::uint32_t position = at + padding - tap * dilation;
      return at + padding < tap * dilation || by_stride.divide(position) != 0 ? ~0u : position;
    }
  }
};
/// One side of a convolution: images or results [batch, channels, height, width].
struct conv_side {
  std::uint32_t channels, height, width;
  divisor<std::uint32_t> group;  ///< channels of a group

  __device__ std::uint32_t plane() const { return height * width; }
  __device__ index_t at(std::uint32_t image, std::uint32_t channel) const {
    return (static_cast<index_t>(image) * channels + channel) * plane();
  }
};
/// The sizes of a convolution, as kernels take them.
struct conv_layout {
  conv_side images, results;
  conv_line y, x;

  explicit conv_layout(const gradus::detail::conv_sizes& s)
      : images(side(s.channels, s.group_channels(), s.y.in, s.x.in)),
        results(side(s.filters, s.group_filters(), s.y.out, s.x.out)),
        y(s.y),
        x(s.x) {}
  static conv_side side(index_t channels, index_t group, index_t height, index_t width) {
    return {conv_count(channels), conv_count(height), conv_count(width), divisor<std::uint32_t>(conv_count(group))};
  }
};

/// A thread, a column, for each run of `Width` adjacent elements of the planes of images.
template <int Width = 1>
struct conv_grid {
  std::uint32_t columns;
  divisor<std::uint32_t> runs, height;

  conv_grid(index_t images, index_t rows, index_t width) : height(conv_count(rows)) {
    static_cast<void>(conv_count(images * rows * width));
    const index_t in_row = (width + Width - 1) / Width;
    columns = conv_count(images * rows * in_row);
    runs = divisor<std::uint32_t>(conv_count(in_row));
  }
  /// Calls body(image, y, x) for the first element of a column.
  template <class Body>
  __device__ void at(std::uint32_t column, const Body& body) const {
    const std::uint32_t run = runs.divide(column), row = height.divide(column);
    body(column, row, run * Width);
  }
  /// Calls body(column, image, y, x) for this thread's column.
  template <class Body>
  __device__ void each(const Body& body) const {
    const std::uint32_t column = blockIdx.x * block_threads + threadIdx.x;
    if (column < columns) at(column, [&](auto image, auto row, auto first) { body(column, image, row, first); });
  }
  /// A thread per column and, in steps of the grid, channel: for about 16 elements or more of channels that have `each`.
  dim3 blocks(index_t channels, index_t each) const {
    const index_t some = (15 + each) / each;
    return {blocks_for(columns), static_cast<unsigned>(std::min<index_t>((channels + some - 1) / some, 65535)), 1};
  }
};
/// Calls f(kernel) with the side of square windows that are common, as a type, or with 0.
template <class F>
void with_window(const gradus::detail::conv_sizes& s, const F& f) {
  if (s.y.kernel == 3 && s.x.kernel == 3) f(std::integral_constant<int, 3>{});
  else f(std::integral_constant<int, 0>{});
}
/// Calls f(kernel, width) with the elements of a run, too: several if strides and dilations are 1.
template <class F>
void with_window_runs(const gradus::detail::conv_sizes& s, const F& f) {
  const auto is_unit = [](const gradus::detail::conv_axis& a) { return a.stride == 1 && a.dilation == 1; };
  with_window(s, [&](auto kernel) {
    if (is_unit(s.y) && is_unit(s.x)) f(kernel, std::integral_constant<int, 4>{});
    else f(kernel, std::integral_constant<int, 1>{});
  });
}

/// Taps of a row of the window whose elements a thread holds at once.
template <int Kernel>
inline constexpr std::uint32_t conv_span = Kernel > 0 ? Kernel : 1;
/// Reads the elements at(0), at(1), ..., which are adjacent if Adjacent, of a line of `width` elements, and 0 beyond it.
template <bool Adjacent, class C, int N, class T, class At>
__device__ inline void conv_read(C (&v)[N], const T* line, std::uint32_t width, const At& at) {
  const std::uint32_t first = at(0);
  if constexpr (Adjacent) line += static_cast<std::int32_t>(first);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::uint32_t x = Adjacent ? first + i : at(i);
    v[i] = x < width ? static_cast<C>(line[Adjacent ? i : x]) : C(0);
  }
}

/// The matrix of patches [(channel, tap y, tap x), (image, position y, position x)].
template <int Kernel, class T>
__global__ void __launch_bounds__(block_threads)
    conv_patches_kernel(T* to, const T* x, conv_layout s, conv_grid<> grid) {
  constexpr std::uint32_t span = conv_span<Kernel>;
  grid.each([&](std::uint32_t column, std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
    const std::uint32_t height = Kernel > 0 ? Kernel : s.y.kernel, width = Kernel > 0 ? Kernel : s.x.kernel;
    for (std::uint32_t channel = blockIdx.y; channel < s.images.channels; channel += gridDim.y) {
      const T* const from = x + s.images.at(image, channel);
      T* patch = to + static_cast<index_t>(channel) * (height * width) * grid.columns + column;
#pragma unroll
      for (std::uint32_t ty = 0; ty < height; ++ty) {
        const std::uint32_t from_y = s.y.other<false, false>(at_y, ty);
        const std::uint32_t there = from_y < s.images.height ? s.images.width : 0;
        for (std::uint32_t tx = 0; tx < width; tx += span) {
          T v[span];
          conv_read<false>(v, from + from_y * s.images.width, there,
                           [&](std::uint32_t i) { return s.x.other<false, false>(at_x, tx + i); });
#pragma unroll
          for (const T& one : v) {
            *patch = one;
            patch += grid.columns;
          }
        }
      }
    }
  });
}
/// y [image, filter, position] (+)= a matrix [filter, (image, position)], if it is not null, plus a bias per filter, if
/// that is not null.
template <class TY, class C, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_result_kernel(TY* y, bool accumulate, const C* from, const TB* bias, conv_side to, conv_grid<> grid) {
  grid.each([&](std::uint32_t column, std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
    for (std::uint32_t filter = blockIdx.y; filter < to.channels; filter += gridDim.y) {
      C sum = from != nullptr ? from[static_cast<index_t>(filter) * grid.columns + column] : C(0);
      if (bias != nullptr) sum += static_cast<C>(bias[filter]);
      put<1, true>(y + to.at(image, filter) + at_y * to.width + at_x, accumulate, 1, [&](int) { return sum; });
    }
  });
}
/// x (+)= the sums of the matrix of patches over the patches that read an element, plus a bias per channel.
template <int Kernel, class TX, class C, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_images_kernel(TX* x, bool accumulate, const C* patches, const TB* bias, conv_layout s, conv_grid<> grid,
                       std::uint32_t columns) {
  grid.each([&](std::uint32_t, std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
    const std::uint32_t height = Kernel > 0 ? Kernel : s.y.kernel, width = Kernel > 0 ? Kernel : s.x.kernel;
    for (std::uint32_t channel = blockIdx.y; channel < s.images.channels; channel += gridDim.y) {
      C sum = bias != nullptr ? static_cast<C>(bias[channel]) : C(0);
      const C* row = patches + static_cast<index_t>(channel) * (height * width) * columns + image * s.results.plane();
#pragma unroll
      for (std::uint32_t ty = 0; ty < height; ++ty, row += static_cast<index_t>(width) * columns) {
        const std::uint32_t from_y = s.y.other<true, false>(at_y, ty);
        if (from_y >= s.results.height) continue;
        const C* line = row + from_y * s.results.width;
#pragma unroll
        for (std::uint32_t tx = 0; tx < width; ++tx, line += columns) {
          const std::uint32_t from_x = s.x.other<true, false>(at_x, tx);
          if (from_x < s.results.width) sum += line[from_x];
        }
      }
      put<1, true>(x + s.images.at(image, channel) + at_y * s.images.width + at_x, accumulate, 1,
                   [&](int) { return sum; });
    }
  });
}

// ---- groups of channels, directly -----------------------------------------------------------------------------------

/// to (+)= the convolution of `from`, or, Back, its gradient for images, plus a bias per channel of `to`.
template <int Kernel, int Width, bool Back, class TY, class TX, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_direct_kernel(TY* to, bool accumulate, const TX* from, const TX* w, const TB* bias, conv_layout s,
                       conv_grid<Width> grid) {
  using C = compute_type<TX>;
  constexpr bool unit = Width > 1;
  constexpr std::uint32_t span = conv_span<Kernel>;
  const conv_side &results = Back ? s.images : s.results, &terms = Back ? s.results : s.images;
  const std::uint32_t height = Kernel > 0 ? Kernel : s.y.kernel, width = Kernel > 0 ? Kernel : s.x.kernel;
  const std::uint32_t taps = height * width;
  grid.each([&](std::uint32_t, std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
    for (std::uint32_t channel = blockIdx.y; channel < results.channels; channel += gridDim.y) {
      std::uint32_t group = channel;
      const std::uint32_t in_group = results.group.divide(group), first = group * terms.group.value;
      C sums[Width];
#pragma unroll
      for (C& sum : sums) sum = bias != nullptr ? static_cast<C>(bias[channel]) : C(0);
      const TX* plane = from + terms.at(image, first);
      const TX* factors =
          w + static_cast<index_t>(Back ? first * results.group.value + in_group : channel * terms.group.value) * taps;
      for (std::uint32_t term = 0; term < terms.group.value; ++term) {
#pragma unroll
        for (std::uint32_t ty = 0; ty < height; ++ty) {
          const std::uint32_t from_y = s.y.other<Back, unit>(at_y, ty);
          if (from_y >= terms.height) continue;
          for (std::uint32_t tx = 0; tx < width; tx += span) {
            C v[Width + span - 1];
            conv_read<unit>(v, plane + from_y * terms.width, terms.width, [&](std::uint32_t i) {
              return s.x.other<Back, unit>(at_x, tx + (Back ? span - 1 - i : i));
            });
#pragma unroll
            for (std::uint32_t t = 0; t < span; ++t) {
              const C factor = static_cast<C>(factors[ty * width + tx + t]);
#pragma unroll
              for (int i = 0; i < Width; ++i) sums[i] += v[i + (Back ? span - 1 - t : t)] * factor;
            }
          }
        }
        plane += terms.plane();
        factors += Back ? results.group.value * taps : taps;
      }
      const std::uint32_t left = results.width - at_x;
      TY* const at = to + results.at(image, channel) + at_y * results.width + at_x;
      const auto sum = [&](int i) { return sums[i]; };
      if (results.width % Width == 0) put<Width, true>(at, accumulate, Width, sum);
      else put<Width, false>(at, accumulate, static_cast<int>(left), sum);
    }
  });
}
/// Sums for the gradient of the filters, parts [gridDim.y, filters]: a block for the taps of a filter's channel, or for
/// one of them if Kernel is 0, and for some of the positions.
template <int Kernel, int Width, class C, class TY, class TX>
__global__ void __launch_bounds__(block_threads)
    conv_direct_weights_kernel(C* parts, const TY* y, const TX* x, conv_layout s, conv_grid<Width> grid) {
  constexpr bool unit = Width > 1;
  constexpr std::uint32_t span = conv_span<Kernel>;
  const std::uint32_t first_x = Kernel > 0 ? 0 : blockIdx.x % s.x.kernel;
  const std::uint32_t first_y = Kernel > 0 ? 0 : blockIdx.x / s.x.kernel % s.y.kernel;
  std::uint32_t filter = Kernel > 0 ? blockIdx.x : blockIdx.x / s.x.kernel / s.y.kernel;
  const std::uint32_t in_group = s.images.group.divide(filter), group = s.results.group.quotient(filter);
  const std::uint32_t channel = group * s.images.group.value + in_group;
  C sums[span * span] = {};
  for (std::uint32_t column = blockIdx.y * block_threads + threadIdx.x; column < grid.columns;
       column += gridDim.y * block_threads)
    grid.at(column, [&](std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
      C d[Width];
      conv_read<true>(d, y + s.results.at(image, filter) + at_y * s.results.width, s.results.width,
                      [&](std::uint32_t i) { return at_x + i; });
      const TX* const plane = x + s.images.at(image, channel);
#pragma unroll
      for (std::uint32_t ty = 0; ty < span; ++ty) {
        const std::uint32_t from_y = s.y.other<false, unit>(at_y, first_y + ty);
        if (from_y >= s.images.height) continue;
        C v[Width + span - 1];
        conv_read<unit>(v, plane + from_y * s.images.width, s.images.width,
                        [&](std::uint32_t i) { return s.x.other<false, unit>(at_x, first_x + i); });
#pragma unroll
        for (std::uint32_t tx = 0; tx < span; ++tx)
#pragma unroll
          for (int i = 0; i < Width; ++i) sums[ty * span + tx] += v[i + tx] * d[i];
      }
    });
  C* const to = parts + (static_cast<index_t>(blockIdx.y) * gridDim.x + blockIdx.x) * (span * span);
#pragma unroll
  for (std::uint32_t tap = 0; tap < span * span; ++tap) {
    const C sum = row_sum<block_threads>(sums[tap]);
    if (threadIdx.x == 0) to[tap] = sum;
  }
}
/// w (+)= the sum over parts [count, weights], in their order.
template <class TW, class C>
__global__ void __launch_bounds__(block_threads)
    conv_parts_kernel(TW* w, bool accumulate, const C* parts, index_t count, index_t weights) {
  const index_t weight = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (weight >= weights) return;
  C sum = 0;
  for (index_t part = 0; part < count; ++part) sum += parts[part * weights + weight];
  put<1, true>(w + weight, accumulate, 1, [&](int) { return sum; });
}

// ---- products -------------------------------------------------------------------------------------------------------

/// The result of a convolution as an image whose rows are its channels' elements.
inline gradus::detail::conv_sizes conv_rows(const gradus::detail::conv_sizes& s) {
  return {s.batch, s.filters, s.filters, 1, {}, {s.positions(), 1, s.positions(), 1, 0, 1}};
}
/// The matrices of one chunk of images, the patches in T and the results in S, and `more` bytes.
template <class T, class S>
struct conv_chunks {
  static constexpr index_t most_bytes = index_t{64} << 20;
  index_t images;  ///< in a chunk
  T* patches;
  S* results;
  void* rest;

  conv_chunks(context<cuda>& ctx, const gradus::detail::conv_sizes& s, index_t rows_of_t, index_t rows_of_s,
              std::size_t more = 0) {
    const auto bytes = [&](index_t rows, std::size_t element, index_t count) {
      return (rows * s.positions() * count * element + cuda::alignment - 1) / cuda::alignment * cuda::alignment;
    };
    const index_t one = bytes(rows_of_t, sizeof(T), 1) + bytes(rows_of_s, sizeof(S), 1);
    images = std::clamp<index_t>(most_bytes / one, 1, s.batch);
    const std::size_t first = bytes(rows_of_t, sizeof(T), images);
    const std::size_t both = first + bytes(rows_of_s, sizeof(S), images);
    auto* const room = static_cast<std::byte*>(ctx.get<operand_workspace>().reserve(ctx, both + more));
    patches = reinterpret_cast<T*>(room);
    results = reinterpret_cast<S*>(room + first);
    rest = room + both;
  }
};
/// c (+)= op(a) op(b).
template <class Acc, class T, class Out>
void conv_product(context<cuda>& ctx, const product_sizes& of, const T* a, const T* b, Out* c, bool accumulate) {
  gemm(ctx, bounded_product<typename formats_of<Acc>::values, T, Out>{of}, a, b, c, accumulate);
}
/// dw (+)= the sum of `count` parts that fill(parts) writes or adds to.
template <class C, class TW, class Fill>
void conv_in_parts(context<cuda>& ctx, TW* dw, bool accumulate, index_t weights, index_t count, const Fill& fill) {
  auto* const parts = static_cast<C*>(ctx.get<operand_workspace>().reserve(ctx, count * weights * sizeof(C)));
  fill(parts);
  launch(ctx, conv_parts_kernel<TW, C>, blocks_for(weights), block_threads, dw, accumulate, parts, count, weights);
}
/// True if images, as they lie, are matrices of patches, and products of them fast: their rows are whole words.
template <class T>
constexpr bool are_patches(const gradus::detail::conv_sizes& s) {
  const auto is_same = [](const gradus::detail::conv_axis& a) {
    return a.kernel == 1 && a.stride == 1 && a.padding == 0 && a.in == a.out;
  };
  return s.groups == 1 && is_same(s.y) && is_same(s.x) && s.positions() * sizeof(T) % 8 == 0;
}

}  // namespace cuda_kit

template <>
struct kernel<op::convolution, cuda> {
  using sizes = detail::conv_sizes;

  template <class Acc, class TY, class T, class TB = T>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TY* y, bool accumulate, const T* x,
                      const T* w, T* /*turned*/, const TB* bias = nullptr) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    const conv_layout s(of);
    if (of.groups > 1) return direct<false>(ctx, of, y, accumulate, x, w, bias);
    if constexpr (std::is_same_v<TY, T> || std::is_same_v<TY, C>)
      if (are_patches<T>(of)) return by_image<Acc>(ctx, of, false, y, accumulate, x, w, bias);
    const index_t k = of.channels * of.taps();
    const conv_chunks<T, C> chunk(ctx, of, k, of.filters);
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t images = std::min(chunk.images, of.batch - first), columns = images * of.positions();
      patches(ctx, of, images, chunk.patches, x + first * of.channels * of.plane());
      conv_product<Acc>(ctx, {false, false, of.filters, columns, k}, w, chunk.patches, chunk.results, false);
      const conv_grid<> grid(images, of.y.out, of.x.out);
      launch(ctx, conv_result_kernel<TY, C, TB>, grid.blocks(of.filters, 1), block_threads,
             y + first * of.filters * of.positions(), accumulate, chunk.results, bias, s.results, grid);
    }
  }
  template <class Acc, class TX, class T, class TB = T>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TX* dx, bool accumulate,
                       const T* dy, const T* w, T* /*turned*/, const TB* bias = nullptr) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    const conv_layout s(of);
    if (of.groups > 1) return direct<true>(ctx, of, dx, accumulate, dy, w, bias);
    if constexpr (std::is_same_v<TX, T> || std::is_same_v<TX, C>)
      if (are_patches<T>(of)) return by_image<Acc>(ctx, of, true, dx, accumulate, dy, w, bias);
    const index_t k = of.channels * of.taps();
    const conv_chunks<T, C> chunk(ctx, of, of.filters, k);
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t images = std::min(chunk.images, of.batch - first), columns = images * of.positions();
      patches(ctx, conv_rows(of), images, chunk.patches, dy + first * of.filters * of.positions());
      conv_product<Acc>(ctx, {true, false, k, columns, of.filters}, w, chunk.patches, chunk.results, false);
      const conv_grid<> grid(images, of.y.in, of.x.in);
      with_window(of, [&](auto kernel) {
        launch(ctx, conv_images_kernel<decltype(kernel)::value, TX, C, TB>, grid.blocks(of.channels, of.taps()),
               block_threads, dx + first * of.channels * of.plane(), accumulate, chunk.results, bias, s, grid,
               conv_count(columns));
      });
    }
  }
  template <class Acc, class TW, class T>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TW* dw, bool accumulate,
                       const T* dy, const T* x, float* /*sums*/) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    const index_t k = of.group_channels() * of.taps(), weights = of.filters * k;
    if (of.groups > 1) return direct_weights(ctx, of, dw, accumulate, dy, x);
    // Sums for each image, if they are fewer bytes than the images.
    const index_t image = of.channels * of.plane(), result = of.filters * of.positions();
    if (are_patches<T>(of) && weights * sizeof(C) <= (image + result) * sizeof(T)) {
      const index_t count = std::clamp<index_t>(conv_chunks<T, T>::most_bytes / (weights * sizeof(C)), 1, of.batch);
      return conv_in_parts<C>(ctx, dw, accumulate, weights, count, [&](C* parts) {
        for (index_t first = 0; first < of.batch; first += count)
          conv_product<Acc>(ctx,
                            {false, true, of.filters, of.channels, of.positions(), std::min(count, of.batch - first)},
                            dy + first * result, x + first * image, parts, first > 0);
      });
    }
    // The matrix of results has the gradient dy; the sums over chunks, if dw has another type, are rounded once.
    constexpr bool in_place = std::is_same_v<TW, C>;
    const conv_chunks<T, T> chunk(ctx, of, k, of.filters, in_place ? 0 : weights * sizeof(C));
    C* sums = static_cast<C*>(chunk.rest);
    if constexpr (in_place) sums = dw;
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t images = std::min(chunk.images, of.batch - first), columns = images * of.positions();
      patches(ctx, of, images, chunk.patches, x + first * image);
      patches(ctx, conv_rows(of), images, chunk.results, dy + first * result);
      conv_product<Acc>(ctx, {false, true, of.filters, k, columns}, chunk.results, chunk.patches, sums,
                        first > 0 || (in_place && accumulate));
    }
    if constexpr (!in_place)
      kernel<op::convert, cuda>::forward(ctx, dw, static_cast<const C*>(sums), weights, accumulate);
  }

 private:
  template <class T>
  static void patches(context<cuda>& ctx, const sizes& of, index_t images, T* to, const T* x) {
    using namespace cuda_kit;
    const conv_grid<> grid(images, of.y.out, of.x.out);
    with_window(of, [&](auto kernel) {
      launch(ctx, conv_patches_kernel<decltype(kernel)::value, T>, grid.blocks(of.channels, of.taps()), block_threads,
             to, x, conv_layout(of), grid);
    });
  }
  // to (+)= the product of w, or, `back`, of its transpose, and each image, plus a bias.
  template <class Acc, class TO, class T, class TB>
  static void by_image(context<cuda>& ctx, const sizes& of, bool back, TO* to, bool accumulate, const T* from,
                       const T* w, const TB* bias) {
    using namespace cuda_kit;
    const index_t m = back ? of.channels : of.filters, k = back ? of.filters : of.channels;
    if (bias != nullptr) {
      const conv_grid<> grid(of.batch, of.y.in, of.x.in);
      launch(ctx, conv_result_kernel<TO, compute_type<T>, TB>, grid.blocks(m, 1), block_threads, to, accumulate,
             static_cast<const compute_type<T>*>(nullptr), bias, conv_layout::side(m, 1, of.y.in, of.x.in), grid);
    }
    product_sizes product{back, false, m, of.positions(), k, of.batch};
    product.shared_a = true;
    conv_product<Acc>(ctx, product, w, from, to, accumulate || bias != nullptr);
  }
  template <bool Back, class TO, class T, class TB>
  static void direct(context<cuda>& ctx, const sizes& of, TO* to, bool accumulate, const T* from, const T* w,
                     const TB* bias) {
    using namespace cuda_kit;
    with_window_runs(of, [&](auto kernel, auto width) {
      constexpr int window = decltype(kernel)::value, n = decltype(width)::value;
      const conv_grid<n> grid(of.batch, Back ? of.y.in : of.y.out, Back ? of.x.in : of.x.out);
      launch(ctx, conv_direct_kernel<window, n, Back, TO, T, TB>,
             grid.blocks(Back ? of.channels : of.filters, 4 * (Back ? of.group_filters() : of.group_channels())),
             block_threads, to, accumulate, from, w, bias, conv_layout(of), grid);
    });
  }
  template <class TW, class T>
  static void direct_weights(context<cuda>& ctx, const sizes& of, TW* dw, bool accumulate, const T* dy, const T* x) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    const index_t pairs = of.filters * of.group_channels(), weights = pairs * of.taps();
    with_window_runs(of, [&](auto kernel, auto width) {
      constexpr int window = decltype(kernel)::value, n = decltype(width)::value;
      const conv_grid<n> grid(of.batch, of.y.out, of.x.out);
      // Parts for all multiprocessors, of several columns a thread.
      const index_t blocks = window > 0 ? pairs : weights;
      const index_t count = std::clamp<index_t>(2048 / blocks, 1, (grid.columns - 1) / (4 * block_threads) + 1);
      conv_in_parts<C>(ctx, dw, accumulate, weights, count, [&](C* parts) {
        launch(ctx, conv_direct_weights_kernel<window, n, C, T, T>,
               dim3(conv_count(blocks), static_cast<unsigned>(count)), block_threads, parts, dy, x, conv_layout(of),
               grid);
      });
    });
  }
};

}  // namespace gradus
