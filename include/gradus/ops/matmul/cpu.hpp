#pragma once
#include "../../cpu/gemm.hpp"
#include "../../cpu/parallel.hpp"
#include "../broadcast/cpu.hpp"
#include "matmul.hpp"

namespace gradus {

template <bool TransposeA, bool TransposeB>
struct kernel<op::matrix_product<TransposeA, TransposeB>, cpu> {
  template <class A, class B>
  using rule = detail::matmul_rule<A, B, TransposeA, TransposeB>;

  template <class T, class C, class A, class B>
  static void forward(context<cpu>& ctx, view<T, C> c, view<const T, A> a, view<const T, B> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {  // one tall product
      cpu_kit::gemm<compute_type<T>>(ctx, false, TransposeB, r::batch * r::m, r::n, r::k, a.data(), r::k, b.data(),
                                     columns_of<B>, false, c.data(), r::n);
    } else {
      for (index i = 0; i < r::batch; ++i)
        cpu_kit::gemm<compute_type<T>>(ctx, TransposeA, TransposeB, r::m, r::n, r::k, a.data() + i * r::m * r::k,
                                       columns_of<A>, b.data() + (r::shared ? 0 : i * r::k * r::n), columns_of<B>,
                                       false, c.data() + i * r::m * r::n, r::n);
    }
  }
  /// da (+)= dc op(b)^T, transposed if a is taken transposed.
  template <class T, class C, class A, class B>
  static void backward_a(context<cpu>& ctx, view<T, A> da, bool accumulate, view<const T, C> dc, view<const T, B> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      cpu_kit::gemm<compute_type<T>>(ctx, false, !TransposeB, r::batch * r::m, r::k, r::n, dc.data(), r::n, b.data(),
                                     columns_of<B>, accumulate, da.data(), r::k);
    } else {
      for (index i = 0; i < r::batch; ++i) {
        const T* dci = dc.data() + i * r::m * r::n;
        const T* bi = b.data() + (r::shared ? 0 : i * r::k * r::n);
        T* dai = da.data() + i * r::m * r::k;
        if constexpr (TransposeA)
          cpu_kit::gemm<compute_type<T>>(ctx, TransposeB, true, r::k, r::m, r::n, bi, columns_of<B>, dci, r::n,
                                         accumulate, dai, r::m);
        else
          cpu_kit::gemm<compute_type<T>>(ctx, false, !TransposeB, r::m, r::k, r::n, dci, r::n, bi, columns_of<B>,
                                         accumulate, dai, r::k);
      }
    }
  }
  /// db (+)= op(a)^T dc, summed over batches when b is shared.
  template <class T, class C, class A, class B>
  static void backward_b(context<cpu>& ctx, view<T, B> db, bool accumulate, view<const T, C> dc, view<const T, A> a) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      product_b<T>(ctx, r::batch * r::m, r::n, r::k, a.data(), columns_of<A>, dc.data(), accumulate, db.data());
    } else {
      for (index i = 0; i < r::batch; ++i)
        product_b<T>(ctx, r::m, r::n, r::k, a.data() + i * r::m * r::k, columns_of<A>, dc.data() + i * r::m * r::n,
                     accumulate || (r::shared && i > 0), db.data() + (r::shared ? 0 : i * r::k * r::n));
    }
  }

 private:
  template <class T>
  static void product_b(context<cpu>& ctx, index m, index n, index k, const T* a, index lda, const T* dc,
                        bool accumulate, T* db) {
    if constexpr (TransposeB)
      cpu_kit::gemm<compute_type<T>>(ctx, true, TransposeA, n, k, m, dc, n, a, lda, accumulate, db, k);
    else cpu_kit::gemm<compute_type<T>>(ctx, !TransposeA, false, k, n, m, a, lda, dc, n, accumulate, db, n);
  }
};

template <>
struct kernel<op::linear, cpu> {
  template <class T, class Y, class X, class W, class B>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<const T, X> x, view<const T, W> w, view<const T, B> b) {
    constexpr index rows = rows_of<X>;
    constexpr index in = W::extents[0];
    constexpr index out = W::extents[1];
    cpu_kit::gemm<compute_type<T>>(ctx, false, false, rows, out, in, x.data(), in, w.data(), out, false, y.data(), out,
                                   b.data());
  }
  template <class T, class X, class Y, class W>
  static void backward_x(context<cpu>& ctx, view<T, X> dx, bool accumulate, view<const T, Y> dy, view<const T, W> w) {
    constexpr index in = W::extents[0];
    constexpr index out = W::extents[1];
    cpu_kit::gemm<compute_type<T>>(ctx, false, true, rows_of<X>, in, out, dy.data(), out, w.data(), out, accumulate,
                                   dx.data(), in);
  }
  template <class T, class W, class Y, class X>
  static void backward_w(context<cpu>& ctx, view<T, W> dw, bool accumulate, view<const T, Y> dy, view<const T, X> x) {
    constexpr index in = W::extents[0];
    constexpr index out = W::extents[1];
    cpu_kit::gemm<compute_type<T>>(ctx, true, false, in, out, rows_of<X>, x.data(), in, dy.data(), out, accumulate,
                                   dw.data(), out);
  }
  template <class T, class B, class Y>
  static void backward_b(context<cpu>& ctx, view<T, B> db, bool accumulate, view<const T, Y> dy) {
    kernel<op::sum_to, cpu>::forward(ctx, db, dy, accumulate);
  }
};

}  // namespace gradus
