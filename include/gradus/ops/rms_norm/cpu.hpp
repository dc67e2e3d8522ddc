#pragma once
// The CPU kernels of rms_norm: layer_norm's, not centred.

#include "../layer_norm/cpu.hpp"
#include "rms_norm.hpp"

namespace gradus {

template <>
struct kernel<op::rms_norm, cpu> {
  template <class TY, class T, class X, class C, class S, class TW, class W>
  static void forward(context<cpu>& ctx, double eps, view<TY, X> y, view<C, S> kept, view<const T, X> x,
                      view<const TW, W> w) {
    cpu_kit::norm_rows<false>(ctx, eps, y.data(), static_cast<C*>(nullptr), kept.data(), x.data(), w.data(),
                              static_cast<const TW*>(nullptr), rows_in(x.extents()), columns_in(x.extents()));
  }
  template <class TDX, class TDW, class C, class TY, class T, class X, class TW, class W, class S>
  static void backward(context<cpu>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw, C* partial,
                       view<const TY, X> dy, view<const T, X> x, view<const TW, W> w, view<const C, S> kept) {
    cpu_kit::norm_rows_backward<false>(ctx, dx, dw, elementwise_target<TDW>{}, partial, dy.data(), x.data(), w.data(),
                                       static_cast<const C*>(nullptr), kept.data(), rows_in(x.extents()),
                                       columns_in(x.extents()), detail::norm_block(rows_in(x.extents())));
  }
};

}  // namespace gradus
