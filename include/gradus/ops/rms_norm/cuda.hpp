#pragma once
// The CUDA kernels of rms_norm: layer_norm's, not centred.

#include "../layer_norm/cuda.hpp"
#include "rms_norm.hpp"

namespace gradus {

template <>
struct kernel<op::rms_norm, cuda> {
  template <class S, class TY, class C, class T, class TW>
  static void forward(context<cuda>& ctx, double eps, shaped_matrix<S> of, TY* y, C* kept, const T* x, const TW* w) {
    cuda_kit::row_norm<S, false>::template forward<C>(ctx, eps, y, static_cast<C*>(nullptr), kept, x, w,
                                                      static_cast<const TW*>(nullptr), of.rows);
  }
  template <class S, class TDX, class TDW, class C, class TY, class T, class TW>
  static void backward(context<cuda>& ctx, shaped_matrix<S> of, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       C*, const TY* dy, const T* x, const TW* w, const C* kept) {
    cuda_kit::row_norm<S, false>::template backward<C>(ctx, dx, dw, elementwise_target<TDW>{}, dy, x, w,
                                                       static_cast<const C*>(nullptr), kept, of.rows);
  }
};

}  // namespace gradus
