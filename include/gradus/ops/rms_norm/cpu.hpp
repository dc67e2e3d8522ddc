#pragma once
#include "../layer_norm/cpu.hpp"
#include "rms_norm.hpp"

namespace gradus {

template <>
struct kernel<op::rms_norm, cpu> {
  template <class T, class X, class C, class S, class TW, class W>
  static void forward(context<cpu>&, double eps, view<T, X> y, view<C, S> kept, view<const T, X> x,
                      view<const TW, W> w) {
    cpu_kit::row_norm<X, false>::template forward<C>(eps, y.data(), static_cast<C*>(nullptr), kept.data(), x.data(),
                                                     w.data(), static_cast<const TW*>(nullptr));
  }
  template <class T, class TW, class C, class X, class W, class S>
  static void backward(context<cpu>&, elementwise_target<T> dx, elementwise_target<TW> dw, C* partial,
                       view<const T, X> dy, view<const T, X> x, view<const TW, W> w, view<const C, S> kept) {
    cpu_kit::row_norm<X, false>::template backward<C>(dx, dw, elementwise_target<TW>{}, partial, dy.data(), x.data(),
                                                      w.data(), static_cast<const C*>(nullptr), kept.data());
  }
};

}  // namespace gradus
