#pragma once
// The CUDA kernels of matrix products: by cuBLASLt.

#include <algorithm>
#include <type_traits>

#include "../../gpu/gemm_cublaslt.hpp"
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
  template <class B>
  static constexpr bool shared = B::rank == 2;

  template <class Acc, class Out, class C, class T, class A, class B>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, view<Out, C, cuda> c, view<const T, A, cuda> a,
                      view<const T, B, cuda> b) {
    constexpr auto rule = [](const auto& of_a, const auto& of_b) {
      const auto r = sizes(of_a, of_b);
      if (shared<B> && !TransposeA)  // one tall product
        return cuda_kit::product_sizes{false, TransposeB, r.batch * r.m, r.n, r.k};
      return cuda_kit::product_sizes{TransposeA, TransposeB, r.m, r.n, r.k, r.batch, shared<B>};
    };
    cuda_kit::gemm(ctx, cuda_kit::product_of<cuda_kit::values<Acc>, T, Out>(rule, a.extents(), b.extents()), a.data(),
                   b.data(), c.data(), false);
  }
  /// da (+)= dc op(b)^T, transposed if a is transposed.
  template <class Acc, class Out, class A, class T, class C, class B>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, A, cuda> da, bool accumulate,
                       view<const T, C, cuda> dc, view<const T, B, cuda> b) {
    if constexpr (!TransposeA) {
      constexpr auto rule = [](const auto& of_a, const auto& of_b) {
        const auto r = sizes(of_a, of_b);
        if (shared<B>) return cuda_kit::product_sizes{false, !TransposeB, r.batch * r.m, r.k, r.n};
        return cuda_kit::product_sizes{false, !TransposeB, r.m, r.k, r.n, r.batch};
      };
      const auto p = cuda_kit::product_of<cuda_kit::gradient_first<Acc>, T, Out>(rule, da.extents(), b.extents());
      cuda_kit::gemm(ctx, p, dc.data(), b.data(), da.data(), accumulate);
    } else {
      const auto r = sizes(da.extents(), b.extents());
      const auto run = [&](const auto& rule, index_t i) {
        const auto p = cuda_kit::product_of<cuda_kit::gradient_second<Acc>, T, Out>(rule, da.extents(), b.extents());
        cuda_kit::gemm(ctx, p, b.data(), dc.data() + i * r.m * r.n, da.data() + i * r.m * r.k, accumulate);
      };
      const auto whole = [](const auto& of_a, const auto& of_b) {
        const auto of = sizes(of_a, of_b);
        return cuda_kit::product_sizes{TransposeB, true, of.k, of.m, of.n, of.batch};
      };
      const auto one = [](const auto& of_a, const auto& of_b) {
        const auto of = sizes(of_a, of_b);
        return within<T, Out>(TransposeB, true, of.k, of.m, of.n);
      };
      if constexpr (!shared<B>) {
        run(whole, 0);
      } else {  // the shared matrix is on the left, which has a row stride: one product per batch
        if (r.batch == 1) return run(whole, 0);
        for (index_t i = 0; i < r.batch; ++i) run(one, i);
      }
    }
  }
  /// db (+)= op(a)^T dc, summed over batches when b is shared.
  template <class Acc, class Out, class B, class T, class C, class A>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, B, cuda> db, bool accumulate,
                       view<const T, C, cuda> dc, view<const T, A, cuda> a) {
    const auto r = sizes(a.extents(), db.extents());
    const auto run = [&](const auto& rule, index_t i, bool add) {
      const T* const of_a = a.data() + i * r.m * r.k;
      const T* const of_c = dc.data() + i * r.m * r.n;
      using sums = std::conditional_t<TransposeB, cuda_kit::gradient_first<Acc>, cuda_kit::gradient_second<Acc>>;
      const auto p = cuda_kit::product_of<sums, T, Out>(rule, a.extents(), db.extents());
      cuda_kit::gemm(ctx, p, TransposeB ? of_c : of_a, TransposeB ? of_a : of_c, db.data(), add);
    };
    if constexpr (shared<B> && TransposeA) {
      const auto one = [](const auto& of_a, const auto& of_b) {
        const auto of = sizes(of_a, of_b);
        if (TransposeB) return within<T, Out>(true, TransposeA, of.n, of.k, of.m);
        return within<T, Out>(!TransposeA, false, of.k, of.n, of.m);
      };
      for (index_t i = 0; i < r.batch; ++i) run(one, i, accumulate || i > 0);
    } else {
      const auto whole = [](const auto& of_a, const auto& of_b) {
        const auto of = sizes(of_a, of_b);
        const index_t m = shared<B> ? of.batch * of.m : of.m, batch = shared<B> ? 1 : of.batch;
        if (TransposeB) return cuda_kit::product_sizes{true, TransposeA, of.n, of.k, m, batch};
        return cuda_kit::product_sizes{!TransposeA, false, of.k, of.n, m, batch};
      };
      run(whole, 0, accumulate);
    }
  }

 private:
  template <class A, class B>
  static constexpr detail::matmul_sizes sizes(const A& a, const B& b) {
    return detail::matmul_sizes_of<TransposeA, TransposeB>(a, b);
  }
  // A matrix of a batch may begin at any element.
  template <class T, class Out>
  static constexpr cuda_kit::product_sizes within(bool transpose_a, bool transpose_b, index_t m, index_t n, index_t k) {
    return {transpose_a, transpose_b, m, n, k, 1, false, std::min(sizeof(T), sizeof(Out))};
  }
};

template <>
struct kernel<op::linear, cuda> {
  template <class Acc, class Out, class Y, class T, class X, class W, class TB, class B>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, view<Out, Y, cuda> y, view<const T, X, cuda> x,
                      view<const T, W, cuda> w, view<const TB, B, cuda> b) {
    constexpr auto rule = [](const auto& of_x, const auto& of_w) {
      return cuda_kit::product_sizes{false, false, rows_in(of_x), of_w.extent(1), of_w.extent(0)};
    };
    const auto p = cuda_kit::product_of<cuda_kit::values<Acc>, T, Out>(rule, x.extents(), w.extents());
    const Out* bias = nullptr;
    if constexpr (std::is_same_v<TB, Out>) {
      bias = b.data();
    } else {  // a tensor; the library takes biases of the result's type only (CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)
      auto& room = ctx.get<cuda_kit::operand_workspace>();
      auto* const rounded = static_cast<Out*>(room.reserve(ctx, B::size * sizeof(Out)));
      kernel<op::convert, cuda>::forward(ctx, rounded, b.data(), b.extents().size, false);
      bias = rounded;
    }
    if (cuda_kit::gemm_bias(ctx, p, x.data(), w.data(), y.data(), bias)) return;
    kernel<op::map<cuda_kit::copy_element>, cuda>::forward(ctx, cuda_kit::copy_element{}, y,
                                                           b);  // adds the product to the bias
    cuda_kit::gemm(ctx, p, x.data(), w.data(), y.data(), true);
  }
  template <class Acc, class Out, class X, class T, class Y, class W>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, X, cuda> dx, bool accumulate,
                       view<const T, Y, cuda> dy, view<const T, W, cuda> w) {
    constexpr auto rule = [](const auto& of_x, const auto& of_w) {
      return cuda_kit::product_sizes{false, true, rows_in(of_x), of_w.extent(0), of_w.extent(1)};
    };
    const auto p = cuda_kit::product_of<cuda_kit::gradient_first<Acc>, T, Out>(rule, dx.extents(), w.extents());
    cuda_kit::gemm(ctx, p, dy.data(), w.data(), dx.data(), accumulate);
  }
  template <class Acc, class Out, class W, class T, class Y, class X>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, W, cuda> dw, bool accumulate,
                       view<const T, Y, cuda> dy, view<const T, X, cuda> x) {
    cuda_kit::gemm(ctx, product_for_w<Acc, T, Out>(x, dw), x.data(), dy.data(), dw.data(), accumulate);
  }
  template <class Acc, class Out, class B, class T, class Y>
  static void backward(gradient_of<2>, accumulate_in<Acc>, context<cuda>& ctx, view<Out, B, cuda> db, bool accumulate,
                       view<const T, Y, cuda> dy) {
    kernel<op::sum_to, cuda>::forward(ctx, db, dy, accumulate);
  }
  /// The product for dw may also sum the columns of dy, which it reads anyway.
  template <class Acc, class OutW, class W, class OutB, class B, class T, class Y, class X>
  static void backward(gradient_of<1, 2>, accumulate_in<Acc> in, context<cuda>& ctx, view<OutW, W, cuda> dw,
                       bool add_to_dw, view<OutB, B, cuda> db, bool add_to_db, view<const T, Y, cuda> dy,
                       view<const T, X, cuda> x) {
    if constexpr (std::is_same_v<OutW, OutB>) {
      OutB* const sums =
          add_to_db ? static_cast<OutB*>(ctx.get<cuda_kit::operand_workspace>().reserve(ctx, B::size * sizeof(OutB)))
                    : db.data();
      const auto sum = [&] {
        kernel<op::sum_to, cuda>::forward(ctx, view<OutB, B, cuda>(sums, db.extents()), dy, false);
      };
      if (cuda_kit::gemm_bias_gradient(ctx, product_for_w<Acc, T, OutW>(x, dw), x.data(), dy.data(), dw.data(),
                                       add_to_dw, sums, sum)) {
        if (add_to_db) kernel<op::convert, cuda>::forward(ctx, db.data(), std::as_const(sums), db.extents().size, true);
        return;
      }
    }
    backward(gradient_of<1>{}, in, ctx, dw, add_to_dw, dy, x);
    backward(gradient_of<2>{}, in, ctx, db, add_to_db, dy);
  }

 private:
  /// dw = x^T dy.
  template <class Acc, class T, class Out, class X, class W>
  static constexpr auto product_for_w(const X& x, const W& dw) {
    constexpr auto rule = [](const auto& of_x, const auto& of_w) {
      return cuda_kit::product_sizes{true, false, of_w.extent(0), of_w.extent(1), rows_in(of_x)};
    };
    return cuda_kit::product_of<cuda_kit::gradient_second<Acc>, T, Out>(rule, x.extents(), dw.extents());
  }
};

}  // namespace gradus
