#pragma once
// The CPU kernels of matrix products.

#include "../../cpu/gemm.hpp"
#include "../../cpu/parallel.hpp"
#include "../broadcast/cpu.hpp"
#include "matmul.hpp"

namespace gradus {

template <bool TransposeA, bool TransposeB>
struct kernel<op::matrix_product<TransposeA, TransposeB>, cpu> {
  template <class B>
  static constexpr bool shared = B::rank == 2;

  template <class Acc, class TC, class C, class TA, class A, class TB, class B>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, view<TC, C> c, view<const TA, A> a, view<const TB, B> b) {
    const auto r = sizes(a, b);
    if constexpr (shared<B> && !TransposeA) {  // one tall product
      cpu_kit::gemm<Acc>(ctx, false, TransposeB, r.batch * r.m, r.n, r.k, a.data(), r.k, b.data(),
                         columns_in(b.extents()), false, c.data(), r.n);
    } else {
      for (index_t i = 0; i < r.batch; ++i)
        cpu_kit::gemm<Acc>(ctx, TransposeA, TransposeB, r.m, r.n, r.k, a.data() + i * r.m * r.k,
                           columns_in(a.extents()), b.data() + (shared<B> ? 0 : i * r.k * r.n), columns_in(b.extents()),
                           false, c.data() + i * r.m * r.n, r.n);
    }
  }
  /// da (+)= dc op(b)^T, transposed if a is transposed.
  template <class Acc, class TDA, class A, class TC, class C, class TB, class B>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, view<TDA, A> da, bool accumulate,
                       view<const TC, C> dc, view<const TB, B> b) {
    const auto r = sizes(da, b);
    if constexpr (shared<B> && !TransposeA) {
      cpu_kit::gemm<Acc>(ctx, false, !TransposeB, r.batch * r.m, r.k, r.n, dc.data(), r.n, b.data(),
                         columns_in(b.extents()), accumulate, da.data(), r.k);
    } else {
      for (index_t i = 0; i < r.batch; ++i) {
        const TC* dci = dc.data() + i * r.m * r.n;
        const TB* bi = b.data() + (shared<B> ? 0 : i * r.k * r.n);
        TDA* dai = da.data() + i * r.m * r.k;
        if constexpr (TransposeA)
          cpu_kit::gemm<Acc>(ctx, TransposeB, true, r.k, r.m, r.n, bi, columns_in(b.extents()), dci, r.n, accumulate,
                             dai, r.m);
        else
          cpu_kit::gemm<Acc>(ctx, false, !TransposeB, r.m, r.k, r.n, dci, r.n, bi, columns_in(b.extents()), accumulate,
                             dai, r.k);
      }
    }
  }
  /// db (+)= op(a)^T dc, summed over batches when b is shared.
  template <class Acc, class TDB, class B, class TC, class C, class TA, class A>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, view<TDB, B> db, bool accumulate,
                       view<const TC, C> dc, view<const TA, A> a) {
    const auto r = sizes(a, db);
    if constexpr (shared<B> && !TransposeA) {
      product_b<Acc>(ctx, r.batch * r.m, r.n, r.k, a.data(), columns_in(a.extents()), dc.data(), accumulate, db.data());
    } else {
      for (index_t i = 0; i < r.batch; ++i)
        product_b<Acc>(ctx, r.m, r.n, r.k, a.data() + i * r.m * r.k, columns_in(a.extents()), dc.data() + i * r.m * r.n,
                       accumulate || (shared<B> && i > 0), db.data() + (shared<B> ? 0 : i * r.k * r.n));
    }
  }

 private:
  static detail::matmul_sizes sizes(const auto& a, const auto& b) {
    return detail::matmul_sizes_of<TransposeA, TransposeB>(a.extents(), b.extents());
  }
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
    const index_t rows = rows_in(x.extents());
    const index_t in = w.extents().extent(0), out = w.extents().extent(1);
    cpu_kit::gemm<Acc>(ctx, false, false, rows, out, in, x.data(), in, w.data(), out, false, y.data(), out, b.data());
  }
  template <class Acc, class TDX, class X, class TY, class Y, class TW, class W>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cpu>& ctx, view<TDX, X> dx, bool accumulate,
                       view<const TY, Y> dy, view<const TW, W> w) {
    const index_t in = w.extents().extent(0), out = w.extents().extent(1);
    cpu_kit::gemm<Acc>(ctx, false, true, rows_in(dy.extents()), in, out, dy.data(), out, w.data(), out, accumulate,
                       dx.data(), in);
  }
  template <class Acc, class TDW, class W, class TY, class Y, class TX, class X>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cpu>& ctx, view<TDW, W> dw, bool accumulate,
                       view<const TY, Y> dy, view<const TX, X> x) {
    const index_t in = dw.extents().extent(0), out = dw.extents().extent(1);
    cpu_kit::gemm<Acc>(ctx, true, false, in, out, rows_in(x.extents()), x.data(), in, dy.data(), out, accumulate,
                       dw.data(), out);
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
