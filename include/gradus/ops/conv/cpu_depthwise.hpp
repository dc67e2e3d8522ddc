#pragma once
// Depthwise convolutions, whose filters read one channel each: row by row, without a product of matrices.

#include <algorithm>
#include <cstddef>

#include "../../core/config.hpp"
#include "../../core/dtype.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "options.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// The positions first .. first + count - 1 of an axis whose tap reads an element of the image, `from` for the first.
struct tap_range {
  index_t first, count, from;

  tap_range(const gradus::detail::conv_axis& a, index_t tap) {
    const index_t shift = tap * a.dilation;
    first = shift < a.padding ? (a.padding - shift + a.stride - 1) / a.stride : 0;
    const index_t end = a.in + a.padding > shift ? std::min(a.out, (a.in + a.padding - shift - 1) / a.stride + 1) : 0;
    count = end - std::min(end, first);
    from = count > 0 ? first * a.stride + shift - a.padding : 0;
  }
};

/// to[i * to_step] += factor * from[i * from_step] for i = 0 .. n-1.
template <class C, class S>
GRADUS_INLINE void add_scaled(index_t n, C factor, const S* from, index_t from_step, C* to, index_t to_step) {
  if (from_step == 1 && to_step == 1)
    for_packs<C>(n, [&](index_t i, auto which) {
      store(load<C>(to + i, which) + load<C>(from + i, which) * pack<C>(factor), to + i, which);
    });
  else
    for (index_t i = 0; i < n; ++i) to[i * to_step] += factor * static_cast<C>(from[i * from_step]);
}
/// The sum of a[i] * b[i * step] for i = 0 .. n-1.
template <class C, class A, class B>
GRADUS_INLINE C row_product(index_t n, const A* a, const B* b, index_t step) {
  if (step == 1)
    return sum_packs<C, 1>(n, [&](index_t i, auto which) { return load<C>(a + i, which) * load<C>(b + i, which); });
  C sum = 0;
  for (index_t i = 0; i < n; ++i) sum += static_cast<C>(a[i]) * static_cast<C>(b[i * step]);
  return sum;
}
/// Calls f(plane, row) for planes of `elements` elements, with a row of `width` of them to compute in.
template <class C, class F>
void for_planes(context<cpu>& ctx, index_t planes, index_t elements, index_t width, const F& f) {
  const index_t together = std::max<index_t>(1, 4096 / elements);
  parallel_tasks(ctx, (planes + together - 1) / together, width * sizeof(C), [&](index_t task, void* memory) {
    for (index_t p = task * together; p < std::min(planes, (task + 1) * together); ++p) f(p, static_cast<C*>(memory));
  });
}
/// A row of results: to (+)= row.
template <class C, class S>
GRADUS_INLINE void put_row(const C* row, index_t n, S* to, bool accumulate) {
  for_packs<C>(n, [&](index_t i, auto which) { put(load<C>(row + i, which), to + i, accumulate, which); });
}

/// y (+)= the convolution of x with w, plus the bias.
template <class TY, class TX, class TW, class TB>
void convolve_depthwise(context<cpu>& ctx, const gradus::detail::conv_sizes& s, TY* y, bool accumulate, const TX* x,
                        const TW* w, const TB* bias) {
  using C = compute_type<TX>;
  for_planes<C>(ctx, s.batch * s.filters, s.positions(), s.x.out, [&](index_t plane, C* row) {
    const index_t filter = plane % s.filters, channel = plane / s.filters * s.channels + filter / s.group_filters();
    for (index_t i = 0; i < s.y.out; ++i) {
      std::fill_n(row, s.x.out, bias != nullptr ? static_cast<C>(bias[filter]) : C(0));
      for (index_t ty = 0; ty < s.y.kernel; ++ty) {
        const tap_range of_y(s.y, ty);
        if (i - of_y.first >= of_y.count) continue;  // wraps if i is before the first
        const TX* const from = x + channel * s.plane() + (of_y.from + (i - of_y.first) * s.y.stride) * s.x.in;
        for (index_t tx = 0; tx < s.x.kernel; ++tx) {
          const tap_range of_x(s.x, tx);
          add_scaled(of_x.count, static_cast<C>(w[filter * s.taps() + ty * s.x.kernel + tx]), from + of_x.from,
                     s.x.stride, row + of_x.first, 1);
        }
      }
      put_row(row, s.x.out, y + plane * s.positions() + i * s.x.out, accumulate);
    }
  });
}

/// x (+)= the gradient of the convolution for the gradient y of its result, plus the bias.
template <class TX, class TY, class TW, class TB>
void convolve_depthwise_back(context<cpu>& ctx, const gradus::detail::conv_sizes& s, TX* x, bool accumulate,
                             const TY* y, const TW* w, const TB* bias) {
  using C = compute_type<TY>;
  for_planes<C>(ctx, s.batch * s.channels, s.plane(), s.x.in, [&](index_t plane, C* row) {
    const index_t channel = plane % s.channels, image = plane / s.channels, filters = s.group_filters();
    for (index_t i = 0; i < s.y.in; ++i) {
      std::fill_n(row, s.x.in, bias != nullptr ? static_cast<C>(bias[channel]) : C(0));
      for (index_t filter = channel * filters; filter < (channel + 1) * filters; ++filter)
        for (index_t ty = 0; ty < s.y.kernel; ++ty) {
          const tap_range of_y(s.y, ty);
          const index_t behind = i - of_y.from, position = behind / s.y.stride;  // wraps if i is before the first
          if (behind % s.y.stride != 0 || position >= of_y.count) continue;
          const TY* const from = y + (image * s.filters + filter) * s.positions() + (of_y.first + position) * s.x.out;
          for (index_t tx = 0; tx < s.x.kernel; ++tx) {
            const tap_range of_x(s.x, tx);
            add_scaled(of_x.count, static_cast<C>(w[filter * s.taps() + ty * s.x.kernel + tx]), from + of_x.first, 1,
                       row + of_x.from, s.x.stride);
          }
        }
      put_row(row, s.x.in, x + plane * s.plane() + i * s.x.in, accumulate);
    }
  });
}

/// w (+)= the gradient of the convolution of x for the gradient y of its result.
template <class TW, class TY, class TX>
void correlate_depthwise(context<cpu>& ctx, const gradus::detail::conv_sizes& s, TW* w, bool accumulate, const TY* y,
                         const TX* x) {
  using C = compute_type<TX>;
  parallel_tasks(ctx, s.filters, s.taps() * sizeof(double), [&](index_t filter, void* memory) {
    auto* const sums = static_cast<double*>(memory);
    std::fill_n(sums, s.taps(), 0.0);
    for (index_t image = 0; image < s.batch; ++image) {
      const TX* const plane = x + (image * s.channels + filter / s.group_filters()) * s.plane();
      for (index_t ty = 0; ty < s.y.kernel; ++ty) {
        const tap_range of_y(s.y, ty);
        for (index_t i = 0; i < of_y.count; ++i) {
          const TX* const from = plane + (of_y.from + i * s.y.stride) * s.x.in;
          const TY* const row = y + (image * s.filters + filter) * s.positions() + (of_y.first + i) * s.x.out;
          for (index_t tx = 0; tx < s.x.kernel; ++tx) {
            const tap_range of_x(s.x, tx);
            sums[ty * s.x.kernel + tx] += row_product<C>(of_x.count, row + of_x.first, from + of_x.from, s.x.stride);
          }
        }
      }
    }
    for (index_t k = 0; k < s.taps(); ++k) {
      TW& to = w[filter * s.taps() + k];
      to =
          convert_element<TW>(static_cast<C>(accumulate ? sums[k] + static_cast<double>(static_cast<C>(to)) : sums[k]));
    }
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
