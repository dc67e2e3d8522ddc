#pragma once
// The CUDA kernels of matrix products: by cuBLASLt.

#include <algorithm>
#include <type_traits>

#include "../../cuda/gemm_cublaslt.hpp"
#include "../broadcast/cuda.hpp"
#include "../elementwise/cuda.hpp"
#include "matmul.hpp"

namespace gradus {

namespace cuda_kit {
struct copy_element {
  template <class T>
  GRADUS_HD T operator()(T x) const {
    return x;
  }
};
}  // namespace cuda_kit

// The FP8 formats of a product of values, and of one whose first or second operand is a gradient.
namespace cuda_kit {
template <class Acc>
using values = typename formats_of<Acc>::values;
template <class Acc>
using gradient_first = typename formats_of<Acc>::gradient_first;
template <class Acc>
using gradient_second = typename formats_of<Acc>::gradient_second;
}  // namespace cuda_kit

template <bool TransposeA, bool TransposeB>
struct kernel<op::matrix_product<TransposeA, TransposeB>, cuda> {
  template <class A, class B>
  using rule = detail::matmul_rule<A, B, TransposeA, TransposeB>;
  template <class Acc, class In, class Out, bool TA, bool TB, index_t M, index_t N, index_t K, index_t Batch = 1,
            bool SharedB = false>
  using product = cuda_kit::product<Acc, In, Out, TA, TB, M, N, K, Batch, SharedB>;
  // A matrix of a batch may begin at any element.
  template <class Acc, class In, class Out, bool TA, bool TB, index_t M, index_t N, index_t K>
  using product_within = cuda_kit::product<Acc, In, Out, TA, TB, M, N, K, 1, false, std::min(sizeof(In), sizeof(Out))>;

  template <class Acc, class Out, class C, class T, class A, class B>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, view<Out, C, cuda> c, view<const T, A, cuda> a,
                      view<const T, B, cuda> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA)  // one tall product
      cuda_kit::gemm<product<cuda_kit::values<Acc>, T, Out, false, TransposeB, r::batch * r::m, r::n, r::k>>(
          ctx, a.data(), b.data(), c.data(), false);
    else
      cuda_kit::gemm<
          product<cuda_kit::values<Acc>, T, Out, TransposeA, TransposeB, r::m, r::n, r::k, r::batch, r::shared>>(
          ctx, a.data(), b.data(), c.data(), false);
  }
  /// da (+)= dc op(b)^T, transposed if a is transposed.
  template <class Acc, class Out, class A, class T, class C, class B>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, A, cuda> da, bool accumulate,
                       view<const T, C, cuda> dc, view<const T, B, cuda> b) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      cuda_kit::gemm<product<cuda_kit::gradient_first<Acc>, T, Out, false, !TransposeB, r::batch * r::m, r::k, r::n>>(
          ctx, dc.data(), b.data(), da.data(), accumulate);
    } else if constexpr (!TransposeA) {
      cuda_kit::gemm<product<cuda_kit::gradient_first<Acc>, T, Out, false, !TransposeB, r::m, r::k, r::n, r::batch>>(
          ctx, dc.data(), b.data(), da.data(), accumulate);
    } else if constexpr (!r::shared || r::batch == 1) {
      cuda_kit::gemm<product<cuda_kit::gradient_second<Acc>, T, Out, TransposeB, true, r::k, r::m, r::n, r::batch>>(
          ctx, b.data(), dc.data(), da.data(), accumulate);
    } else {  // the shared matrix is on the left, which has a row stride: one product per batch
      for (index_t i = 0; i < r::batch; ++i)
        cuda_kit::gemm<product_within<cuda_kit::gradient_second<Acc>, T, Out, TransposeB, true, r::k, r::m, r::n>>(
            ctx, b.data(), dc.data() + i * r::m * r::n, da.data() + i * r::m * r::k, accumulate);
    }
  }
  /// db (+)= op(a)^T dc, summed over batches when b is shared.
  template <class Acc, class Out, class B, class T, class C, class A>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, B, cuda> db, bool accumulate,
                       view<const T, C, cuda> dc, view<const T, A, cuda> a) {
    using r = rule<A, B>;
    if constexpr (r::shared && !TransposeA) {
      product_b<Acc, r::batch * r::m, r::n, r::k, 1>(ctx, a.data(), dc.data(), accumulate, db.data());
    } else if constexpr (!r::shared) {
      product_b<Acc, r::m, r::n, r::k, r::batch>(ctx, a.data(), dc.data(), accumulate, db.data());
    } else {
      for (index_t i = 0; i < r::batch; ++i) {
        const T* ai = a.data() + i * r::m * r::k;
        const T* dci = dc.data() + i * r::m * r::n;
        const bool add = accumulate || i > 0;
        if constexpr (TransposeB)
          cuda_kit::gemm<product_within<cuda_kit::gradient_first<Acc>, T, Out, true, TransposeA, r::n, r::k, r::m>>(
              ctx, dci, ai, db.data(), add);
        else
          cuda_kit::gemm<product_within<cuda_kit::gradient_second<Acc>, T, Out, !TransposeA, false, r::k, r::n, r::m>>(
              ctx, ai, dci, db.data(), add);
      }
    }
  }

 private:
  template <class Acc, index_t M, index_t N, index_t K, index_t Batch, class T, class Out>
  static void product_b(context<cuda>& ctx, const T* a, const T* dc, bool accumulate, Out* db) {
    if constexpr (TransposeB)
      cuda_kit::gemm<product<cuda_kit::gradient_first<Acc>, T, Out, true, TransposeA, N, K, M, Batch>>(ctx, dc, a, db,
                                                                                                       accumulate);
    else
      cuda_kit::gemm<product<cuda_kit::gradient_second<Acc>, T, Out, !TransposeA, false, K, N, M, Batch>>(
          ctx, a, dc, db, accumulate);
  }
};

template <>
struct kernel<op::linear, cuda> {
  template <class Acc, class Out, class Y, class T, class X, class W, class TB, class B>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, view<Out, Y, cuda> y, view<const T, X, cuda> x,
                      view<const T, W, cuda> w, view<const TB, B, cuda> b) {
    using p = cuda_kit::product<cuda_kit::values<Acc>, T, Out, false, false, rows_of<X>, W::extent(1), W::extent(0)>;
    const Out* bias = nullptr;
    if constexpr (std::is_same_v<TB, Out>) {
      bias = b.data();
    } else {  // a tensor; the library takes biases of the result's type only (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
      auto& room = ctx.get<cuda_kit::operand_workspace>();
      auto* const rounded = static_cast<Out*>(room.reserve(ctx, B::size * sizeof(Out)));
      kernel<op::convert, cuda>::forward(ctx, rounded, b.data(), B::size, false);
      bias = rounded;
    }
    if (cuda_kit::gemm_bias<p>(ctx, x.data(), w.data(), y.data(), bias)) return;
    kernel<op::map<cuda_kit::copy_element>, cuda>::forward(ctx, cuda_kit::copy_element{}, y,
                                                           b);  // adds the product to the bias
    cuda_kit::gemm<p>(ctx, x.data(), w.data(), y.data(), true);
  }
  template <class Acc, class Out, class X, class T, class Y, class W>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, X, cuda> dx, bool accumulate,
                       view<const T, Y, cuda> dy, view<const T, W, cuda> w) {
    using p =
        cuda_kit::product<cuda_kit::gradient_first<Acc>, T, Out, false, true, rows_of<X>, W::extent(0), W::extent(1)>;
    cuda_kit::gemm<p>(ctx, dy.data(), w.data(), dx.data(), accumulate);
  }
  template <class Acc, class Out, class W, class T, class Y, class X>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, W, cuda> dw, bool accumulate,
                       view<const T, Y, cuda> dy, view<const T, X, cuda> x) {
    using p =
        cuda_kit::product<cuda_kit::gradient_second<Acc>, T, Out, true, false, W::extent(0), W::extent(1), rows_of<X>>;
    cuda_kit::gemm<p>(ctx, x.data(), dy.data(), dw.data(), accumulate);
  }
  template <class Acc, class Out, class B, class T, class Y>
  static void backward(gradient_of<2>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, B, cuda> db, bool accumulate,
                       view<const T, Y, cuda> dy) {
    kernel<op::sum_to, cuda>::forward(ctx, db, dy, accumulate);
  }
  /// The product for dw also sums the columns of dy, which it reads anyway.
  template <class Acc, class OutW, class W, class OutB, class B, class T, class Y, class X>
  static void backward(gradient_of<1, 2>, accumulate_in<Acc> in, context<cuda>& ctx, view<OutW, W, cuda> dw,
                       bool add_to_dw, view<OutB, B, cuda> db, bool add_to_db, view<const T, Y, cuda> dy,
                       view<const T, X, cuda> x) {
    if constexpr (std::is_same_v<OutW, OutB>) {
      using p = cuda_kit::product<cuda_kit::gradient_second<Acc>, T, OutW, true, false, W::extent(0), W::extent(1),
                                  rows_of<X>>;
      OutB* const sums =
          add_to_db ? static_cast<OutB*>(ctx.get<cuda_kit::operand_workspace>().reserve(ctx, B::size * sizeof(OutB)))
                    : db.data();
      if (cuda_kit::gemm_bias_gradient<p>(ctx, x.data(), dy.data(), dw.data(), add_to_dw, sums)) {
        if (add_to_db) kernel<op::convert, cuda>::forward(ctx, db.data(), std::as_const(sums), B::size, true);
        return;
      }
    }
    backward(gradient_of<1>{}, in, ctx, dw, add_to_dw, dy, x);
    backward(gradient_of<2>{}, in, ctx, db, add_to_db, dy);
  }
};

}  // namespace gradus
