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
  std::uint32_t in, kernel, out, stride, padding, dilation;
  divisor<std::uint32_t> by_in, by_out, by_stride;

  explicit conv_line(const gradus::detail::conv_axis& a)
      : in(conv_count(a.in)),
        kernel(conv_count(a.kernel)),
        out(conv_count(a.out)),
        stride(conv_count(a.stride)),
        padding(conv_count(a.padding)),
        dilation(conv_count(a.dilation)),
        by_in(in),
        by_out(out),
        by_stride(stride) {}

  /// The element of the image that tap `tap` of a position reads; `in` or more if there is none.
  __device__ std::uint32_t read_by(std::uint32_t position, std::uint32_t tap) const {
    return position * stride + tap * dilation - padding;  // wraps below 0
  }
  /// The position whose tap `tap` reads an element; `out` or more if there is none.
  __device__ std::uint32_t reading(std::uint32_t element, std::uint32_t tap) const {
    std::uint32_t position = element + padding - tap * dilation;
    if (element + padding < tap * dilation || by_stride.divide(position) != 0) return out;
    return position;
  }
};
/// The sizes of a convolution, as kernels take them.
struct conv_layout {
  std::uint32_t channels, filters, group_channels, group_filters;
  conv_line y, x;
  explicit conv_layout(const gradus::detail::conv_sizes& s)
      : channels(conv_count(s.channels)),
        filters(conv_count(s.filters)),
        group_channels(conv_count(s.group_channels())),
        group_filters(conv_count(s.group_filters())),
        y(s.y),
        x(s.x) {}
  __device__ index_t in_image(index_t image, std::uint32_t channel, std::uint32_t at_y, std::uint32_t at_x) const {
    return ((image * channels + channel) * y.in + at_y) * x.in + at_x;
  }
  __device__ index_t in_result(index_t image, std::uint32_t filter, std::uint32_t at_y, std::uint32_t at_x) const {
    return ((image * filters + filter) * y.out + at_y) * x.out + at_x;
  }
};

/// The launch of a thread per column and, in steps, per row.
inline dim3 conv_blocks(index_t rows, index_t columns) {
  return {blocks_for(columns), static_cast<unsigned>(std::min<index_t>(rows, 65535)), 1};
}
__device__ inline std::uint32_t conv_column() { return blockIdx.x * block_threads + threadIdx.x; }

/// The matrix of patches [(channel, tap y, tap x), (image, position y, position x)].
template <class T>
__global__ void __launch_bounds__(block_threads)
    conv_patches_kernel(T* to, const T* x, conv_layout s, std::uint32_t rows, std::uint32_t columns) {
  const std::uint32_t column = conv_column();
  if (column >= columns) return;
  std::uint32_t image = column;
  const std::uint32_t at_x = s.x.by_out.divide(image), at_y = s.y.by_out.divide(image);
  for (std::uint32_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const std::uint32_t channel = row / s.x.kernel / s.y.kernel;
    const std::uint32_t from_x = s.x.read_by(at_x, row % s.x.kernel);
    const std::uint32_t from_y = s.y.read_by(at_y, row / s.x.kernel % s.y.kernel);
    const bool inside = from_x < s.x.in && from_y < s.y.in;
    to[static_cast<index_t>(row) * columns + column] = inside ? x[s.in_image(image, channel, from_y, from_x)] : T{};
  }
}
/// y [image, filter, position] (+)= a matrix [filter, (image, position)], plus a bias per filter if it is not null.
template <class TY, class C, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_result_kernel(TY* y, bool accumulate, const C* from, const TB* bias, conv_layout s, std::uint32_t columns) {
  const std::uint32_t column = conv_column();
  if (column >= columns) return;
  std::uint32_t image = column;
  const std::uint32_t at_x = s.x.by_out.divide(image), at_y = s.y.by_out.divide(image);
  for (std::uint32_t filter = blockIdx.y; filter < s.filters; filter += gridDim.y) {
    C sum = from[static_cast<index_t>(filter) * columns + column];
    if (bias != nullptr) sum += static_cast<C>(bias[filter]);
    put<1, true>(y + s.in_result(image, filter, at_y, at_x), accumulate, 1, [&](int) { return sum; });
  }
}
/// x (+)= the sums of the matrix of patches over the patches that read an element, plus a bias per channel.
template <class TX, class C, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_images_kernel(TX* x, bool accumulate, const C* from, const TB* bias, conv_layout s, std::uint32_t elements,
                       std::uint32_t columns) {
  const std::uint32_t element = conv_column();
  if (element >= elements) return;
  std::uint32_t image = element;
  const std::uint32_t at_x = s.x.by_in.divide(image), at_y = s.y.by_in.divide(image);
  for (std::uint32_t channel = blockIdx.y; channel < s.channels; channel += gridDim.y) {
    C sum = bias != nullptr ? static_cast<C>(bias[channel]) : C(0);
    for (std::uint32_t ty = 0; ty < s.y.kernel; ++ty) {
      const std::uint32_t from_y = s.y.reading(at_y, ty);
      if (from_y >= s.y.out) continue;
      for (std::uint32_t tx = 0; tx < s.x.kernel; ++tx) {
        const std::uint32_t from_x = s.x.reading(at_x, tx);
        if (from_x >= s.x.out) continue;
        const index_t row = (static_cast<index_t>(channel) * s.y.kernel + ty) * s.x.kernel + tx;
        sum += from[row * columns + (image * s.y.out + from_y) * s.x.out + from_x];
      }
    }
    put<1, true>(x + s.in_image(image, channel, at_y, at_x), accumulate, 1, [&](int) { return sum; });
  }
}

// ---- groups of channels, directly -----------------------------------------------------------------------------------

template <class TY, class TX, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_direct_kernel(TY* y, bool accumulate, const TX* x, const TX* w, const TB* bias, conv_layout s,
                       std::uint32_t columns) {
  using C = compute_type<TX>;
  const std::uint32_t column = conv_column();
  if (column >= columns) return;
  std::uint32_t image = column;
  const std::uint32_t at_x = s.x.by_out.divide(image), at_y = s.y.by_out.divide(image);
  for (std::uint32_t filter = blockIdx.y; filter < s.filters; filter += gridDim.y) {
    const std::uint32_t first = filter / s.group_filters * s.group_channels;
    C sum = bias != nullptr ? static_cast<C>(bias[filter]) : C(0);
    const TX* factor = w + static_cast<index_t>(filter) * s.group_channels * s.y.kernel * s.x.kernel;
    for (std::uint32_t channel = first; channel < first + s.group_channels; ++channel)
      for (std::uint32_t ty = 0; ty < s.y.kernel; ++ty)
        for (std::uint32_t tx = 0; tx < s.x.kernel; ++tx, ++factor) {
          const std::uint32_t from_y = s.y.read_by(at_y, ty), from_x = s.x.read_by(at_x, tx);
          if (from_y < s.y.in && from_x < s.x.in)
            sum += static_cast<C>(x[s.in_image(image, channel, from_y, from_x)]) * static_cast<C>(*factor);
        }
    put<1, true>(y + s.in_result(image, filter, at_y, at_x), accumulate, 1, [&](int) { return sum; });
  }
}
template <class TX, class TY, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_direct_back_kernel(TX* x, bool accumulate, const TY* y, const TY* w, const TB* bias, conv_layout s,
                            std::uint32_t elements) {
  using C = compute_type<TY>;
  const std::uint32_t element = conv_column();
  if (element >= elements) return;
  std::uint32_t image = element;
  const std::uint32_t at_x = s.x.by_in.divide(image), at_y = s.y.by_in.divide(image);
  for (std::uint32_t channel = blockIdx.y; channel < s.channels; channel += gridDim.y) {
    const std::uint32_t first = channel / s.group_channels * s.group_filters, row = channel % s.group_channels;
    C sum = bias != nullptr ? static_cast<C>(bias[channel]) : C(0);
    for (std::uint32_t filter = first; filter < first + s.group_filters; ++filter)
      for (std::uint32_t ty = 0; ty < s.y.kernel; ++ty)
        for (std::uint32_t tx = 0; tx < s.x.kernel; ++tx) {
          const std::uint32_t from_y = s.y.reading(at_y, ty), from_x = s.x.reading(at_x, tx);
          if (from_y >= s.y.out || from_x >= s.x.out) continue;
          const index_t factor =
              ((static_cast<index_t>(filter) * s.group_channels + row) * s.y.kernel + ty) * s.x.kernel + tx;
          sum += static_cast<C>(y[s.in_result(image, filter, from_y, from_x)]) * static_cast<C>(w[factor]);
        }
    put<1, true>(x + s.in_image(image, channel, at_y, at_x), accumulate, 1, [&](int) { return sum; });
  }
}
/// A block per weight: threads sum over positions, then each other's sums in a fixed order.
template <class TW, class TY, class TX>
__global__ void __launch_bounds__(block_threads)
    conv_direct_weights_kernel(TW* w, bool accumulate, const TY* y, const TX* x, conv_layout s, std::uint32_t columns) {
  using C = compute_type<TX>;
  __shared__ C sums[block_threads];
  const std::uint32_t tx = blockIdx.x % s.x.kernel, ty = blockIdx.x / s.x.kernel % s.y.kernel;
  const std::uint32_t row = blockIdx.x / s.x.kernel / s.y.kernel, filter = row / s.group_channels;
  const std::uint32_t channel = filter / s.group_filters * s.group_channels + row % s.group_channels;
  C sum = 0;
  for (std::uint32_t column = threadIdx.x; column < columns; column += block_threads) {
    std::uint32_t image = column;
    const std::uint32_t at_x = s.x.by_out.divide(image), at_y = s.y.by_out.divide(image);
    const std::uint32_t from_y = s.y.read_by(at_y, ty), from_x = s.x.read_by(at_x, tx);
    if (from_y < s.y.in && from_x < s.x.in)
      sum += static_cast<C>(x[s.in_image(image, channel, from_y, from_x)]) *
             static_cast<C>(y[s.in_result(image, filter, at_y, at_x)]);
  }
  sums[threadIdx.x] = sum;
  for (unsigned half = block_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) put<1, true>(w + blockIdx.x, accumulate, 1, [&](int) { return sums[0]; });
}

// ---- products -------------------------------------------------------------------------------------------------------

/// The result of a convolution as an image whose rows are its channels' elements.
inline conv_layout conv_rows(const gradus::detail::conv_sizes& s) {
  const gradus::detail::conv_axis all{s.positions(), 1, s.positions(), 1, 0, 1};
  return conv_layout({s.batch, s.filters, s.filters, 1, {}, all});
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

}  // namespace cuda_kit

template <>
struct kernel<op::convolution, cuda> {
  using sizes = detail::conv_sizes;

  template <class Acc, class TY, class T, class TB = T>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TY* y, bool accumulate, const T* x,
                      const T* w, T* /*turned*/, const TB* bias = nullptr) {
    using C = compute_type<T>;
    const cuda_kit::conv_layout s(of);
    if (of.groups > 1) {
      const index_t columns = of.batch * of.positions();
      launch(ctx, cuda_kit::conv_direct_kernel<TY, T, TB>, cuda_kit::conv_blocks(of.filters, columns),
             cuda_kit::block_threads, y, accumulate, x, w, bias, s, cuda_kit::conv_count(columns));
      return;
    }
    const index_t k = of.channels * of.taps();
    const cuda_kit::conv_chunks<T, C> chunk(ctx, of, k, of.filters);
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t columns = std::min(chunk.images, of.batch - first) * of.positions();
      const auto count = cuda_kit::conv_count(columns);
      launch(ctx, cuda_kit::conv_patches_kernel<T>, cuda_kit::conv_blocks(k, columns), cuda_kit::block_threads,
             chunk.patches, x + first * of.channels * of.plane(), s, cuda_kit::conv_count(k), count);
      cuda_kit::conv_product<Acc>(ctx, {false, false, of.filters, columns, k}, w, chunk.patches, chunk.results, false);
      launch(ctx, cuda_kit::conv_result_kernel<TY, C, TB>, cuda_kit::conv_blocks(of.filters, columns),
             cuda_kit::block_threads, y + first * of.filters * of.positions(), accumulate, chunk.results, bias, s,
             count);
    }
  }
  template <class Acc, class TX, class T, class TB = T>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TX* dx, bool accumulate,
                       const T* dy, const T* w, T* /*turned*/, const TB* bias = nullptr) {
    using C = compute_type<T>;
    const cuda_kit::conv_layout s(of);
    if (of.groups > 1) {
      const index_t elements = of.batch * of.plane();
      launch(ctx, cuda_kit::conv_direct_back_kernel<TX, T, TB>, cuda_kit::conv_blocks(of.channels, elements),
             cuda_kit::block_threads, dx, accumulate, dy, w, bias, s, cuda_kit::conv_count(elements));
      return;
    }
    const index_t k = of.channels * of.taps();
    const cuda_kit::conv_chunks<T, C> chunk(ctx, of, of.filters, k);
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t images = std::min(chunk.images, of.batch - first), columns = images * of.positions();
      const auto count = cuda_kit::conv_count(columns);
      launch(ctx, cuda_kit::conv_patches_kernel<T>, cuda_kit::conv_blocks(of.filters, columns), cuda_kit::block_threads,
             chunk.patches, dy + first * of.filters * of.positions(), cuda_kit::conv_rows(of), s.filters, count);
      cuda_kit::conv_product<Acc>(ctx, {true, false, k, columns, of.filters}, w, chunk.patches, chunk.results, false);
      launch(ctx, cuda_kit::conv_images_kernel<TX, C, TB>, cuda_kit::conv_blocks(of.channels, images * of.plane()),
             cuda_kit::block_threads, dx + first * of.channels * of.plane(), accumulate, chunk.results, bias, s,
             cuda_kit::conv_count(images * of.plane()), count);
    }
  }
  template <class Acc, class TW, class T>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, const sizes& of, TW* dw, bool accumulate,
                       const T* dy, const T* x, float* /*sums*/) {
    using C = compute_type<T>;
    const cuda_kit::conv_layout s(of);
    const index_t k = of.group_channels() * of.taps(), weights = of.filters * k;
    if (of.groups > 1) {
      launch(ctx, cuda_kit::conv_direct_weights_kernel<TW, T, T>, cuda_kit::conv_count(weights),
             cuda_kit::block_threads, dw, accumulate, dy, x, s, cuda_kit::conv_count(of.batch * of.positions()));
      return;
    }
    // The matrix of results has the gradient dy; the sums over chunks, if dw has another type, are rounded once.
    constexpr bool in_place = std::is_same_v<TW, C>;
    const cuda_kit::conv_chunks<T, T> chunk(ctx, of, k, of.filters, in_place ? 0 : weights * sizeof(C));
    C* sums = static_cast<C*>(chunk.rest);
    if constexpr (in_place) sums = dw;
    for (index_t first = 0; first < of.batch; first += chunk.images) {
      const index_t columns = std::min(chunk.images, of.batch - first) * of.positions();
      const auto count = cuda_kit::conv_count(columns);
      launch(ctx, cuda_kit::conv_patches_kernel<T>, cuda_kit::conv_blocks(k, columns), cuda_kit::block_threads,
             chunk.patches, x + first * of.channels * of.plane(), s, cuda_kit::conv_count(k), count);
      launch(ctx, cuda_kit::conv_patches_kernel<T>, cuda_kit::conv_blocks(of.filters, columns), cuda_kit::block_threads,
             chunk.results, dy + first * of.filters * of.positions(), cuda_kit::conv_rows(of), s.filters, count);
      cuda_kit::conv_product<Acc>(ctx, {false, true, of.filters, k, columns}, chunk.results, chunk.patches, sums,
                                  first > 0 || (in_place && accumulate));
    }
    if constexpr (!in_place)
      kernel<op::convert, cuda>::forward(ctx, dw, static_cast<const C*>(sums), weights, accumulate);
  }
};

}  // namespace gradus
