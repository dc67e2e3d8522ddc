#pragma once
// The CPU kernels of prod.

#include <type_traits>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "prod.hpp"

namespace gradus {

template <>
struct kernel<op::prod, cpu> {
  /// In an order that depends on the number of columns alone.
  template <class TY, class T>
  static void forward(context<cpu>& ctx, matrix_extents of, TY* y, const T* x) {
    using namespace cpu_kit;
    for_rows(ctx, of.rows, of.columns, 1 << 14, [=](index_t row) {
      const index_t n = of.columns;
      const T* const from = x + row * n;
      if constexpr (is_floating<T>) {
        using C = compute_type<promote<TY, T>>;
        C part[lanes<C>], product = 1;
        fold_packs<C, 2>(
            n, pack<C>(1), [](pack<C> a, pack<C> b) { return a * b; },
            [&](index_t i, auto which) { return inside_or(load<C>(from + i, which), C(1), which); })
            .store(part);
        for (const C p : part) product *= p;
        y[row] = static_cast<TY>(product);
      } else {
        TY product = 1;
        for (index_t i = 0; i < n; ++i) product = math::wrapping_multiply(product, static_cast<TY>(from[i]));
        y[row] = product;
      }
    });
  }
};

}  // namespace gradus
