#pragma once
// The CPU kernels of rms_norm: layer_norm's, not centred.

#include "../layer_norm/cpu.hpp"
#include "rms_norm.hpp"

namespace gradus {

template <>
struct kernel<op::rms_norm, cpu> {
  template <class TY, class C, class T, class TW>
  static void forward(context<cpu>& ctx, double eps, matrix_extents of, TY* y, C* kept, const T* x, const TW* w) {
    cpu_kit::norm_rows<false>(ctx, eps, y, static_cast<C*>(nullptr), kept, x, w, static_cast<const TW*>(nullptr),
                              of.rows, of.columns);
  }
  template <class TDX, class TDW, class C, class TY, class T, class TW>
  static void backward(context<cpu>& ctx, matrix_extents of, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       C* partial, const TY* dy, const T* x, const TW* w, const C* kept) {
    cpu_kit::norm_rows_backward<false>(ctx, dx, dw, elementwise_target<TDW>{}, partial, dy, x, w,
                                       static_cast<const C*>(nullptr), kept, of.rows, of.columns,
                                       detail::norm_block(of.rows));
  }
};

}  // namespace gradus
