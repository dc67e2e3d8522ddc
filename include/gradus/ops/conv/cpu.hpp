#pragma once
// The CPU kernels of convolutions: products with patches, which are packed from the images.

#include <numeric>
#include <type_traits>

#include "../../cpu/gemm_patches.hpp"
#include "../../cpu/parallel.hpp"
#include "../broadcast/cpu.hpp"
#include "conv.hpp"
#include "cpu_depthwise.hpp"
#include "cpu_winograd.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

using gradus::detail::conv_axis;
using gradus::detail::conv_sizes;

/// The factors of products with elements stored as S and summed in Acc.
template <class Acc, class S>
using conv_factor = std::conditional_t<detail::is_half<S> && std::is_same_v<Acc, float>, S, Acc>;

/// The patches along one axis that a kernel at each position reads.
inline patch_axis patches_along(const conv_axis& a) {
  return {a.in,     a.kernel, -static_cast<std::ptrdiff_t>(a.padding), static_cast<std::ptrdiff_t>(a.dilation),
          a.stride, a.out};
}
/// The elements of an axis of a result.
inline patch_axis elements_along(index_t extent) { return {extent, 1, 0, 1, 1, extent}; }

/// A phase: elements r, r + stride, ... of an axis of the image, which the same taps of the kernel reach, from adjacent
/// elements of the result.
struct conv_phase {
  index_t first_tap, tap_step;
  patch_axis from;  ///< patches of the result
  patch_axis to;    ///< the elements
};
inline conv_phase phase_along(const conv_axis& a, index_t r) {
  const index_t shared = std::gcd(a.stride, a.dilation);
  conv_phase p{0, a.stride / shared, {}, {}};
  while (p.first_tap < p.tap_step &&
         (r + a.padding + a.stride * a.kernel * a.dilation - p.first_tap * a.dilation) % a.stride != 0)
    ++p.first_tap;
  const bool reached = p.first_tap < std::min(p.tap_step, a.kernel);
  const index_t positions = r < a.in ? (a.in - r - 1) / a.stride + 1 : 0;
  const auto first = static_cast<std::ptrdiff_t>(r + a.padding) - static_cast<std::ptrdiff_t>(p.first_tap * a.dilation);
  p.from = {a.out,
            reached ? (a.kernel - 1 - p.first_tap) / p.tap_step + 1 : 0,
            first / static_cast<std::ptrdiff_t>(a.stride),
            -static_cast<std::ptrdiff_t>(a.dilation / shared),
            1,
            positions};
  p.to = {a.in, 1, static_cast<std::ptrdiff_t>(r), 1, a.stride, positions};
  return p;
}
/// Calls f(y, x, taps before) for the phases of an image.
template <class F>
void for_phases(const conv_sizes& s, const F& f) {
  index_t before = 0;
  for (index_t ry = 0; ry < s.y.stride; ++ry)
    for (index_t rx = 0; rx < s.x.stride; ++rx) {
      const conv_phase y = phase_along(s.y, ry), x = phase_along(s.x, rx);
      if (y.to.positions * x.to.positions > 0) f(y, x, before);
      before += y.from.taps * x.from.taps;
    }
}

/// y (+)= the convolution of x with w, plus the bias.
template <class Acc, class TY, class TX, class TW, class TB>
void convolve(context<cpu>& ctx, const conv_sizes& s, TY* y, bool accumulate, const TX* x, const TW* w,
              const TB* bias) {
  using gemm = patch_gemm<Acc, conv_factor<Acc, TX>>;
  using product = typename gemm::template convolution<TW, TX, TY, TB>;
  const index_t m = s.group_filters(), k = s.group_channels() * s.taps();
  multiply_patches<gemm>(ctx, s.groups, m, s.batch * s.positions(), k, [&](index_t g) {
    const patch_matrix<const TX> from{x + g * s.group_channels() * s.plane(), s.group_channels(),
                                      s.channels * s.plane(), patches_along(s.y), patches_along(s.x)};
    const patch_matrix<TY> to{y + g * m * s.positions(), m, s.filters * s.positions(), elements_along(s.y.out),
                              elements_along(s.x.out)};
    return product({w + g * m * k, k, false}, from, {to, bias != nullptr ? bias + g * m : nullptr, accumulate});
  });
}

/// The filters of each group and phase as a matrix with a row per channel: [group, phase, channel, filter, tap].
template <class T, class TW>
void turn_filters(context<cpu>& ctx, const conv_sizes& s, T* to, const TW* w) {
  const index_t filters = s.group_filters(), channels = s.group_channels(), taps = s.taps();
  for_rows(ctx, s.channels, filters * taps, 1 << 14, [=](index_t row) {
    const index_t group = row / channels, channel = row % channels;
    for_phases(s, [&](const conv_phase& y, const conv_phase& x, index_t before) {
      const index_t count = y.from.taps * x.from.taps;
      T* at = to + (group * taps + before) * filters * channels + channel * filters * count;
      for (index_t f = 0; f < filters; ++f) {
        const TW* const from = w + ((group * filters + f) * channels + channel) * taps;
        for (index_t ty = 0; ty < y.from.taps; ++ty)
          for (index_t tx = 0; tx < x.from.taps; ++tx)
            *at++ =
                convert_element<T>(from[(y.first_tap + ty * y.tap_step) * s.x.kernel + x.first_tap + tx * x.tap_step]);
      }
    });
  });
}
/// x (+)= the gradient of the convolution for the gradient y of its result, plus the bias; `turned` is turn_filters(w).
template <class Acc, class TX, class TY, class TB>
void convolve_back(context<cpu>& ctx, const conv_sizes& s, TX* x, bool accumulate, const TY* y, const TY* turned,
                   const TB* bias) {
  using gemm = patch_gemm<Acc, conv_factor<Acc, TY>>;
  using product = typename gemm::template convolution<TY, TY, TX, TB>;
  const index_t filters = s.group_filters(), m = s.group_channels();
  for_phases(s, [&](const conv_phase& py, const conv_phase& px, index_t before) {
    const index_t taps = py.from.taps * px.from.taps, k = filters * taps;
    multiply_patches<gemm>(ctx, s.groups, m, s.batch * py.to.positions * px.to.positions, k, [&](index_t g) {
      const patch_matrix<const TY> from{y + g * filters * s.positions(), filters, s.filters * s.positions(), py.from,
                                        px.from};
      const patch_matrix<TX> to{x + g * m * s.plane(), m, s.channels * s.plane(), py.to, px.to};
      return product({turned + (g * s.taps() + before) * filters * m, k, false}, from,
                     {to, bias != nullptr ? bias + g * m : nullptr, accumulate});
    });
  });
}

/// w (+)= the gradient of the convolution of x for the gradient y of its result.
template <class Acc, class TW, class TY, class TX>
void correlate(context<cpu>& ctx, const conv_sizes& s, TW* w, bool accumulate, const TY* y, const TX* x) {
  using gemm = patch_gemm<Acc, conv_factor<Acc, TX>>;
  using product = typename gemm::template correlation<TX, TY, TW>;
  const index_t n = s.group_filters(), m = s.group_channels() * s.taps();
  multiply_patches<gemm>(ctx, s.groups, m, n, s.batch * s.positions(), [&](index_t g) {
    const patch_matrix<const TX> of_x{x + g * s.group_channels() * s.plane(), s.group_channels(),
                                      s.channels * s.plane(), patches_along(s.y), patches_along(s.x)};
    const patch_matrix<const TY> of_y{y + g * n * s.positions(), n, s.filters * s.positions(), elements_along(s.y.out),
                                      elements_along(s.x.out)};
    return product(of_x, of_y, w + g * n * m, m, accumulate);
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::convolution, cpu> {
  using sizes = detail::conv_sizes;

  template <class Acc, class TY, class TX, class TW, class TB = TY>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, const sizes& of, TY* y, bool accumulate, const TX* x,
                      const TW* w, [[maybe_unused]] TX* turned, const TB* bias = nullptr) {
    if constexpr (std::is_same_v<TY, float> && std::is_same_v<TX, float> && std::is_same_v<TW, float>) {
      if (detail::in_winograd<Acc, TX, TW>(of)) {
        const cpu_kit::winograd_sizes s(of);
        cpu_kit::winograd<float>::turn_filters(ctx, s, turned, w, false);
        cpu_kit::winograd<float>::convolve(ctx, s, y, accumulate, x, turned, bias);
        return;
      }
    }
    if (of.is_depthwise()) cpu_kit::convolve_depthwise(ctx, of, y, accumulate, x, w, bias);
    else cpu_kit::convolve<Acc>(ctx, of, y, accumulate, x, w, bias);
  }
  template <class Acc, class TX, class TY, class TW, class TB = TX>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, const sizes& of, TX* dx, bool accumulate,
                       const TY* dy, const TW* w, TY* turned, const TB* bias = nullptr) {
    if constexpr (std::is_same_v<TX, float> && std::is_same_v<TY, float> && std::is_same_v<TW, float>) {
      if (detail::in_winograd<Acc, TY, TW>(of)) {
        const cpu_kit::winograd_sizes s = cpu_kit::winograd_sizes(of).back();
        cpu_kit::winograd<float>::turn_filters(ctx, s, turned, w, true);
        cpu_kit::winograd<float>::convolve(ctx, s, dx, accumulate, dy, turned, bias);
        return;
      }
    }
    if (of.is_depthwise()) return cpu_kit::convolve_depthwise_back(ctx, of, dx, accumulate, dy, w, bias);
    cpu_kit::turn_filters(ctx, of, turned, w);
    cpu_kit::convolve_back<Acc>(ctx, of, dx, accumulate, dy, turned, bias);
  }
  template <class Acc, class TW, class TY, class TX>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, const sizes& of, TW* dw, bool accumulate,
                       const TY* dy, const TX* x, [[maybe_unused]] float* sums) {
    if constexpr (std::is_same_v<TX, float> && std::is_same_v<TY, float>) {
      if (detail::in_winograd<Acc, TX, TY>(of)) {
        cpu_kit::winograd<float>::correlate(ctx, cpu_kit::winograd_sizes(of), of.winograd_parts(), dw, accumulate, dy,
                                            x, sums);
        return;
      }
    }
    if (of.is_depthwise()) cpu_kit::correlate_depthwise(ctx, of, dw, accumulate, dy, x);
    else cpu_kit::correlate<Acc>(ctx, of, dw, accumulate, dy, x);
  }
};

}  // namespace gradus
