#include <doctest/doctest.h>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::detail::fixed_string>
struct einsum_text {};
}  // namespace

TEST_CASE_TEMPLATE("matrix products have PyTorch's values and gradients", T, double, float) {
  const auto nn = [](auto a, auto b) { return gr::matmul(a, b); };
  const auto tn = [](auto a, auto b) { return gr::matmul<gr::transpose{.a = true}>(a, b); };
  const auto nt = [](auto a, auto b) { return gr::matmul<gr::transpose{.b = true}>(a, b); };
  using A = gr::shape<2, 3, 5, 7>;
  check_case<T>("matmul", nn, given<gr::shape<5, 7>>{"a"}, given<gr::shape<7, 3>>{"b"});
  check_case<T>("matmul_tn", tn, given<gr::shape<7, 5>>{"a"}, given<gr::shape<7, 3>>{"b"});
  check_case<T>("matmul_nt", nt, given<gr::shape<5, 7>>{"a"}, given<gr::shape<3, 7>>{"b"});
  check_case<T>("matmul_batched", nn, given<A>{"a"}, given<gr::shape<2, 3, 7, 4>>{"b"});
  check_case<T>("matmul_batched_tn", tn, given<gr::shape<2, 3, 7, 5>>{"a"}, given<gr::shape<2, 3, 7, 4>>{"b"});
  check_case<T>("matmul_batched_nt", nt, given<A>{"a"}, given<gr::shape<2, 3, 4, 7>>{"b"});
  check_case<T>("matmul_broadcast", nn, given<A>{"a"}, given<gr::shape<7, 4>>{"b"});
}

TEST_CASE_TEMPLATE("linear has PyTorch's values and gradients", T, double, float) {
  using X = gr::shape<2, 5, 7>;
  using W = gr::shape<7, 3>;
  check_case<T>(
      "linear", [](auto x, auto w, auto b) { return gr::linear(x, w, b); }, given<X>{"x"}, given<W>{"w"},
      given<gr::shape<3>>{"b"});
  check_case<T>(
      "linear_nobias", [](auto x, auto w) { return gr::linear(x, w); }, given<X>{"x"}, given<W>{"w"});
}

TEST_CASE_TEMPLATE("einsum has PyTorch's values and gradients", T, double, float) {
  const auto check = []<gr::detail::fixed_string Text, class A, class B>(const char* name, einsum_text<Text>, A, B) {
    check_case<T>(
        name, [](auto a, auto b) { return gr::einsum<Text>(a, b); }, given<A>{"a"}, given<B>{"b"});
  };
  check("einsum_matmul", einsum_text<"bij,bjk->bik">{}, gr::shape<2, 3, 5>{}, gr::shape<2, 5, 4>{});
  check("einsum_permuted", einsum_text<"ibj,kjb->bki">{}, gr::shape<3, 2, 5>{}, gr::shape<4, 5, 2>{});
  check("einsum_two_sums", einsum_text<"bijk,kjl->lib">{}, gr::shape<2, 3, 5, 4>{}, gr::shape<4, 5, 7>{});
  check("einsum_alone", einsum_text<"ijk,jl->il">{}, gr::shape<3, 5, 4>{}, gr::shape<5, 7>{});
  check("einsum_outer", einsum_text<"bi,k->kib">{}, gr::shape<2, 3>{}, gr::shape<5>{});
  check("einsum_dot", einsum_text<"bij,bji->b">{}, gr::shape<2, 3, 5>{}, gr::shape<2, 5, 3>{});
  check_case<T>(
      "einsum_one", [](auto a) { return gr::einsum<"ijk->ki">(a); }, given<gr::shape<2, 3, 5>>{"a"});
}
