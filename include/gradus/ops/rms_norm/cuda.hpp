#pragma once
// The CUDA kernels of rms_norm: layer_norm's, not centred.

#include "../layer_norm/cuda.hpp"
#include "rms_norm.hpp"

namespace gradus {

template <>
struct kernel<op::rms_norm, cuda> {
  template <class TY, class T, class X, class C, class S, class TW, class W>
  static void forward(context<cuda>& ctx, double eps, view<TY, X, cuda> y, view<C, S, cuda> kept,
                      view<const T, X, cuda> x, view<const TW, W, cuda> w) {
    cuda_kit::row_norm<X, false>::template forward<C>(ctx, eps, y.data(), static_cast<C*>(nullptr), kept.data(),
                                                      x.data(), w.data(), static_cast<const TW*>(nullptr),
                                                      rows_in(x.extents()));
  }
  template <class TDX, class TDW, class C, class TY, class T, class X, class TW, class W, class S>
  static void backward(context<cuda>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw, C*,
                       view<const TY, X, cuda> dy, view<const T, X, cuda> x, view<const TW, W, cuda> w,
                       view<const C, S, cuda> kept) {
    cuda_kit::row_norm<X, false>::template backward<C>(ctx, dx, dw, elementwise_target<TDW>{}, dy.data(), x.data(),
                                                       w.data(), static_cast<const C*>(nullptr), kept.data(),
                                                       rows_in(x.extents()));
  }
};

}  // namespace gradus
