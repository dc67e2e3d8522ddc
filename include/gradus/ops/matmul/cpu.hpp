#pragma once
// The CPU kernels of matrix products.

#include "../../cpu/gemm.hpp"
#include "../../cpu/parallel.hpp"
#include "../broadcast/cpu.hpp"
#include "matmul.hpp"

namespace gradus {

template <bool TransposeA, bool TransposeB>
struct kernel<op::matrix_product<TransposeA, TransposeB>, cpu> {
  template <class A, class B>
  using rule = detail::matmul_rule<A, B, TransposeA, TransposeB>;

  template <class Acc, class TC, class C, class TA, class A, class TB, class B>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, view<TC, C> c, view<const TA, A> a, view<const TB, B> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {  // one tall product
      cpu_kit::gemm<Acc>(ctx, false, TransposeB, r::batch * r::m, r::n, r::k, a.data(), r::k, b.data(), columns_of<B>,
                         false, c.data(), r::n);
    } else {
      for (index_t i = 0; i < r::batch; ++i)
        cpu_kit::gemm<Acc>(ctx, TransposeA, TransposeB, r::m, r::n, r::k, a.data() + i * r::m * r::k, columns_of<A>,
                           b.data() + (r::shared ? 0 : i * r::k * r::n), columns_of<B>, false,
                           c.data() + i * r::m * r::n, r::n);
    }
  }
  /// da (+)= dc op(b)^T, transposed if a is transposed.
  template <class Acc, class TDA, class A, class TC, class C, class TB, class B>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, view<TDA, A> da, bool accumulate,
                       view<const TC, C> dc, view<const TB, B> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      cpu_kit::gemm<Acc>(ctx, false, !TransposeB, r::batch * r::m, r::k, r::n, dc.data(), r::n, b.data(), columns_of<B>,
                         accumulate, da.data(), r::k);
    } else {
      for (index_t i = 0; i < r::batch; ++i) {
        const TC* dci = dc.data() + i * r::m * r::n;
        const TB* bi = b.data() + (r::shared ? 0 : i * r::k * r::n);
        TDA* dai = da.data() + i * r::m * r::k;
        if constexpr (TransposeA)
          cpu_kit::gemm<Acc>(ctx, TransposeB, true, r::k, r::m, r::n, bi, columns_of<B>, dci, r::n, accumulate, dai,
                             r::m);
        else
          cpu_kit::gemm<Acc>(ctx, false, !TransposeB, r::m, r::k, r::n, dci, r::n, bi, columns_of<B>, accumulate, dai,
                             r::k);
      }
    }
  }
  /// db (+)= op(a)^T dc, summed over batches when b is shared.
  template <class Acc, class TDB, class B, class TC, class C, class TA, class A>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, view<TDB, B> db, bool accumulate,
                       view<const TC, C> dc, view<const TA, A> a) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      product_b<Acc>(ctx, r::batch * r::m, r::n, r::k, a.data(), columns_of<A>, dc.data(), accumulate, db.data());
    } else {
      for (index_t i = 0; i < r::batch; ++i)
        product_b<Acc>(ctx, r::m, r::n, r::k, a.data() + i * r::m * r::k, columns_of<A>, dc.data() + i * r::m * r::n,
                       accumulate || (r::shared && i > 0), db.data() + (r::shared ? 0 : i * r::k * r::n));
    }
  }

 private:
  template <class Acc, class TA, class TC, class TDB>
  static void product_b(context<cpu>& ctx, index_t m, index_t n, index_t k, const TA* a, index_t lda, const TC* dc,
                        bool accumulate, TDB* db) {
    if constexpr (TransposeB) cpu_kit::gemm<Acc>(ctx, true, TransposeA, n, k, m, dc, n, a, lda, accumulate, db, k);
    else cpu_kit::gemm<Acc>(ctx, !TransposeA, false, k, n, m, a, lda, dc, n, accumulate, db, n);
  }
};

template <>
struct kernel<op::linear, cpu> {
  template <class Acc, class TY, class Y, class TX, class X, class TW, class W, class TB, class B>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, view<TY, Y> y, view<const TX, X> x, view<const TW, W> w,
                      view<const TB, B> b) {
    constexpr index_t rows = rows_of<X>;
    constexpr index_t in = W::extents[0];
    constexpr index_t out = W::extents[1];
    cpu_kit::gemm<Acc>(ctx, false, false, rows, out, in, x.data(), in, w.data(), out, false, y.data(), out, b.data());
  }
  template <class Acc, class TDX, class X, class TY, class Y, class TW, class W>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, view<TDX, X> dx, bool accumulate,
                       view<const TY, Y> dy, view<const TW, W> w) {
    constexpr index_t in = W::extents[0];
    constexpr index_t out = W::extents[1];
    cpu_kit::gemm<Acc>(ctx, false, true, rows_of<X>, in, out, dy.data(), out, w.data(), out, accumulate, dx.data(), in);
  }
  template <class Acc, class TDW, class W, class TY, class Y, class TX, class X>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, view<TDW, W> dw, bool accumulate,
                       view<const TY, Y> dy, view<const TX, X> x) {
    constexpr index_t in = W::extents[0];
    constexpr index_t out = W::extents[1];
    cpu_kit::gemm<Acc>(ctx, true, false, in, out, rows_of<X>, x.data(), in, dy.data(), out, accumulate, dw.data(), out);
  }
  template <class Acc, class TDB, class B, class TY, class Y>
  static void backward(gradient_of<2>, accumulate_in<Acc>, context<cpu>& ctx, view<TDB, B> db, bool accumulate,
                       view<const TY, Y> dy) {
    kernel<op::sum_to, cpu>::forward(ctx, db, dy, accumulate);
  }
  template <class Acc, class TDW, class W, class TDB, class B, class TY, class Y, class TX, class X>
  static void backward(gradient_of<1, 2>, accumulate_in<Acc> in, context<cpu>& ctx, view<TDW, W> dw, bool add_to_dw,
                       view<TDB, B> db, bool add_to_db, view<const TY, Y> dy, view<const TX, X> x) {
    backward(gradient_of<1>{}, in, ctx, dw, add_to_dw, dy, x);
    backward(gradient_of<2>{}, in, ctx, db, add_to_db, dy);
  }
};

}  // namespace gradus
