#pragma once
// Options of convolutions, and the sizes that follow from them.

#include <cstddef>
#include <type_traits>

#include "../../core/extent.hpp"
#include "../../core/per_axis.hpp"
#include "../../core/shape.hpp"

namespace gradus {

/// Options of a convolution. A convolution of sequences (conv1d) reads the second number of each pair.
struct conv {
  per_axis stride = 1;    ///< from one position of the kernel to the next
  per_axis padding = 0;   ///< zeros on each side of the image
  per_axis dilation = 1;  ///< from one element of the kernel to the next
  index_t groups = 1;     ///< group i of the filters reads group i of the channels only
};

/// Options of a transposed convolution: it is the gradient of the convolution with this stride, padding, dilation and
/// groups.
struct conv_transpose {
  per_axis stride = 1;
  per_axis padding = 0;         ///< elements cut off on each side of the result
  per_axis output_padding = 0;  ///< more elements at its end, less than the stride or the dilation
  per_axis dilation = 1;
  index_t groups = 1;
};

namespace detail {

/// One axis of a convolution: extents of image, kernel and result.
struct conv_axis {
  index_t in = 1, kernel = 1, out = 1;
  index_t stride = 1, padding = 0, dilation = 1;

  constexpr index_t reach() const { return dilation * (kernel - 1) + 1; }  ///< of the kernel over the image
};
/// The sizes of a convolution of images [batch, channels, y.in, x.in] with `filters` filters.
struct conv_sizes {
  index_t batch = 1, channels = 1, filters = 1, groups = 1;
  conv_axis y, x;

  constexpr index_t group_channels() const { return channels / groups; }
  constexpr index_t group_filters() const { return filters / groups; }
  constexpr index_t taps() const { return y.kernel * x.kernel; }
  constexpr index_t positions() const { return y.out * x.out; }
  constexpr index_t plane() const { return y.in * x.in; }
  /// True if each filter reads one channel of several.
  constexpr bool is_depthwise() const { return groups > 1 && groups == channels; }
  /// True if Winograd's algorithm takes fewer products: 3 x 3 filters at stride 1, and enough of them.
  constexpr bool suits_winograd() const {
    const auto suits = [](const conv_axis& a) {
      return a.kernel == 3 && a.stride == 1 && a.dilation == 1 && a.padding <= 2 && a.out > 1;
    };
    return suits(y) && suits(x) && groups == 1 && channels >= 16 && filters >= 16;
  }
  /// Elements of the filters that it transforms, of `rows` results and `terms` operands, in rows of registers.
  static constexpr index_t winograd_elements(index_t rows, index_t terms) { return 16 * terms * (rows * 4 / 3 + 32); }
  /// Winograd tiles (2 x 2 results), cut into parts with a partial filter gradient each. Their number depends on the
  /// sizes alone and keeps the sums under 8 MB.
  constexpr index_t winograd_tiles() const { return batch * ((y.out + 1) / 2) * ((x.out + 1) / 2); }
  constexpr index_t winograd_parts() const {
    const index_t fit = (index_t{1} << 21) / (16 * channels * filters), wanted = (winograd_tiles() + 255) / 256;
    return fit < 1 ? 1 : fit < wanted ? fit : wanted;
  }
  /// Multiply-adds of one image, in each of forward and the two gradients.
  constexpr index_t products() const { return filters * group_channels() * taps() * positions(); }
};

/// The result's extent along an axis; 0 if the kernel does not fit.
constexpr conv_axis forward_axis(index_t in, index_t kernel, index_t stride, index_t padding, index_t dilation) {
  conv_axis a{in, kernel, 0, stride, padding, dilation};
  if (a.reach() <= in + 2 * padding && stride > 0) a.out = (in + 2 * padding - a.reach()) / stride + 1;
  return a;
}
/// The axis of the convolution whose result has `out` elements, for an image that has as many as fit and `more`.
constexpr conv_axis transposed_axis(index_t out, index_t kernel, index_t stride, index_t padding, index_t dilation,
                                    index_t more) {
  conv_axis a{0, kernel, out, stride, padding, dilation};
  const index_t all = (out - 1) * stride + a.reach() + more;
  if (all > 2 * padding) a.in = all - 2 * padding;
  return a;
}

/// Whether options are of type conv_transpose.
template <auto Options>
inline constexpr bool is_transposed = std::is_same_v<std::remove_cvref_t<decltype(Options)>, conv_transpose>;

/// The sizes of a convolution by the extents of images [B, C, (H,) W] and filters [O, C / groups, (KH,) KW]; or, by
/// options of a transposed one, of images [B, I, H, W] and weights [I, O / groups, KH, KW], the sizes of the
/// convolution that it inverts.
template <auto Options, class X, class W>
constexpr conv_sizes conv_sizes_of(const X& x, const W& w) {
  constexpr auto o = Options;
  if constexpr (is_transposed<Options>) {
    const auto axis = [&](index_t i, index_t per_axis::*of) {
      return transposed_axis(x.extents[i], w.extents[i], o.stride.*of, o.padding.*of, o.dilation.*of,
                             o.output_padding.*of);
    };
    return {x.extent(0), w.extent(1) * o.groups, x.extent(1), o.groups, axis(2, &per_axis::y), axis(3, &per_axis::x)};
  } else {
    conv_sizes s{x.extent(0), x.extent(1), w.extent(0), o.groups, {}, {}};
    s.x = forward_axis(x.extent(-1), w.extent(-1), o.stride.x, o.padding.x, o.dilation.x);
    if constexpr (X::rank == 4) s.y = forward_axis(x.extent(2), w.extent(2), o.stride.y, o.padding.y, o.dilation.y);
    return s;
  }
}

}  // namespace detail

}  // namespace gradus
