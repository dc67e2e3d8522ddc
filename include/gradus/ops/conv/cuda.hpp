#pragma once
// The CUDA kernels of convolutions: products by cuBLASLt with the images as they lie, or with the patches of a chunk of
// images, in a matrix of bounded size; groups of channels directly.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../../gpu/gemm_cublaslt.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/workspace.hpp"
#include "../broadcast/cuda.hpp"
#include "conv.hpp"
#include "cuda_groups.hpp"
#include "cuda_windows.hpp"

namespace gradus {

namespace cuda_kit {

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
      with_window<1, 3>(of, [&](auto kernel) {
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
    // Sums for each image, if they have fewer bytes than the images and their gradients.
    const index_t image = of.channels * of.plane(), result = of.filters * of.positions();
    if (are_patches<T>(of) && weights * sizeof(C) <= (image + result) * sizeof(T)) {
      const index_t count = std::clamp<index_t>(conv_chunks<T, T>::most_bytes / (weights * sizeof(C)), 1, of.batch);
      return conv_in_parts<C>(ctx, dw, accumulate, weights, count, [&](C* parts) {
        product_sizes product{false, true, of.filters, of.channels, of.positions()};
        const std::size_t apart = count * (image | result) * sizeof(T);  // from chunk to chunk, its lowest bit
        product.alignment = std::min<std::size_t>(product.alignment, apart & (~apart + 1));
        for (index_t first = 0; first < of.batch; first += count) {
          product.batch = std::min(count, of.batch - first);
          conv_product<Acc>(ctx, product, dy + first * result, x + first * image, parts, first > 0);
        }
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
    with_window<1, 3>(of, [&](auto kernel) {
      launch(ctx, conv_patches_kernel<decltype(kernel)::value, T>, grid.blocks(of.channels, of.taps()), block_threads,
             to, x, conv_layout(of), grid);
    });
  }
  // to (+)= the product of w, or, `back`, of its transpose, and each image, plus a bias, which is rounded first.
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
             grid.blocks(Back ? of.channels : of.filters, 8 * (Back ? of.group_filters() : of.group_channels())),
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
      const index_t count = std::clamp<index_t>(2048 / blocks, 1, (grid.columns - 1) / (8 * block_threads) + 1);
      conv_in_parts<C>(ctx, dw, accumulate, weights, count, [&](C* parts) {
        launch(ctx, conv_direct_weights_kernel<window, n, C, T, T>,
               dim3(conv_count(blocks), static_cast<unsigned>(count)), block_threads, parts, dy, x, conv_layout(of),
               grid);
      });
    });
  }
};

}  // namespace gradus
