#pragma once
// How the CUDA kernels of convolutions walk images and their windows.

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "../../gpu/launch.hpp"
#include "../../gpu/runs.hpp"
#include "options.hpp"

namespace gradus::cuda_kit {

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
  /// Threads for each column and, in steps of the grid, channel: of some channels that have `each` of 32 elements.
  dim3 blocks(index_t channels, index_t each) const {
    const index_t some = (31 + each) / each;
    return {blocks_for(columns), static_cast<unsigned>(std::min<index_t>((channels + some - 1) / some, 65535)), 1};
  }
};
/// Calls f(kernel) with the side of square windows, as a type, if it is one of these, or else with 0.
template <int Side, int... Others, class F>
void with_window(const gradus::detail::conv_sizes& s, const F& f) {
  if (s.y.kernel == Side && s.x.kernel == Side) f(std::integral_constant<int, Side>{});
  else if constexpr (sizeof...(Others) > 0) with_window<Others...>(s, f);
  else f(std::integral_constant<int, 0>{});
}
/// Calls f(kernel, width) with the elements of a run, too: several if strides and dilations are 1.
template <class F>
void with_window_runs(const gradus::detail::conv_sizes& s, const F& f) {
  const auto is_unit = [](const gradus::detail::conv_axis& a) { return a.stride == 1 && a.dilation == 1; };
  with_window<3>(s, [&](auto kernel) {
    if (is_unit(s.y) && is_unit(s.x)) f(kernel, std::integral_constant<int, 4>{});
    else f(kernel, std::integral_constant<int, 1>{});
  });
}

/// Taps of a row of the window whose elements a thread holds at once.
template <int Kernel>
inline constexpr std::uint32_t conv_span = Kernel > 0 ? Kernel : 1;
/// Reads the elements at(0), at(1), ... of a line of `width` elements, and 0 beyond it. Adjacent: at(i) = at(0) + i.
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

}  // namespace gradus::cuda_kit
