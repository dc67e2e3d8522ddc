#pragma once
// The CPU kernels of prod.

#include <type_traits>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "prod.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The product of f(i, lanes) over 0 .. n-1, in a fixed order. Lanes outside the run must be 1.
template <class C, class F>
GRADUS_INLINE C multiply_packs(index_t n, const F& f) {
  const auto multiply = [](pack<C> a, pack<C> b) { return a * b; };
  C part[lanes<C>], product = 1;
  fold_packs<C, 2>(n, pack<C>(1), multiply, f).store(part);
  for (const C p : part) product *= p;
  return product;
}

template <class TY, class T>
void prod_rows(context<cpu>& ctx, TY* y, const T* x, index_t rows, index_t columns) {
  for_rows(ctx, rows, columns, 1 << 14, [=](index_t row) {
    const index_t n = columns;
    const T* const from = x + row * n;
    if constexpr (is_floating<T>) {
      using C = compute_type<promote<TY, T>>;
      y[row] = static_cast<TY>(multiply_packs<C>(
          n, [&](index_t i, auto which) { return inside_or(load<C>(from + i, which), C(1), which); }));
    } else {
      TY product = 1;
      for (index_t i = 0; i < n; ++i) product = math::wrapping_multiply(product, static_cast<TY>(from[i]));
      y[row] = product;
    }
  });
}

/// dx (+)= dy times the product of the row's other elements: 0 beside another 0.
template <class TDX, class TDY, class T>
void prod_rows_backward(context<cpu>& ctx, TDX* dx, bool accumulate, const TDY* dy, const T* x, index_t rows,
                        index_t columns) {
  using C = compute_type<promote<TDX, TDY, T>>;
  for_rows(ctx, rows, columns, 1 << 13, [=](index_t row) {
    const index_t n = columns;
    const T* const from = x + row * n;
    TDX* const to = dx + row * n;
    const pack<C> zero(0), one(1);
    index_t zeros = 0;
    for (index_t i = 0; i < n; ++i) zeros += static_cast<C>(from[i]) == C(0) ? 1 : 0;
    const C others = multiply_packs<C>(n, [&](index_t i, auto which) {  // of the elements that are not 0
      const pack<C> v = inside_or(load<C>(from + i, which), C(1), which);
      return select(v == zero, one, v);
    });
    const C grad = static_cast<C>(dy[row]) * others;  // maybe infinite, and 0 where it does not count
    const pack<C> of_zero(zeros == 1 ? grad : C(0)), of_others(zeros == 0 ? grad : C(0));
    for_packs<C>(n, [&](index_t i, auto which) {
      const pack<C> v = load<C>(from + i, which);
      put(select(v == zero, of_zero, of_others / select(v == zero, one, v)), to + i, accumulate, which);
    });
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::prod, cpu> {
  template <class TY, class SY, class T, class S>
  static void forward(context<cpu>& ctx, view<TY, SY> y, view<const T, S> x) {
    cpu_kit::prod_rows(ctx, y.data(), x.data(), rows_in(x.extents()), columns_in(x.extents()));
  }
  template <class TDX, class S, class TDY, class SY, class T>
  static void backward(context<cpu>& ctx, view<TDX, S> dx, bool accumulate, view<const TDY, SY> dy,
                       view<const T, S> x) {
    cpu_kit::prod_rows_backward(ctx, dx.data(), accumulate, dy.data(), x.data(), rows_in(x.extents()),
                                columns_in(x.extents()));
  }
};

}  // namespace gradus
