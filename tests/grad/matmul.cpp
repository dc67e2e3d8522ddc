#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::transpose Which, class A, class B>
void check_product() {
  workplace at;
  check_gradient(
      "matmul", [](auto a, auto b) { return gr::matmul<Which>(a, b); }, normal<double, A>(at.ctx),
      normal<double, B>(at.ctx));
}
template <class X, gr::index_t Out>
void check_linear() {
  workplace at;
  const auto x = normal<double, X>(at.ctx);
  const auto w = normal<double, gr::shape<X::extent(-1), Out>>(at.ctx);
  const auto b = normal<double, gr::shape<Out>>(at.ctx);
  check_gradient(
      "linear", [](auto v, auto m, auto s) { return gr::linear(v, m, s); }, x, w, b);
}
}  // namespace

TEST_CASE("gradients of matrix products are right: transposed, batched, and with one shared matrix") {
  check_product<gr::transpose{}, gr::shape<1, 1>, gr::shape<1, 1>>();
  check_product<gr::transpose{}, gr::shape<3, 19>, gr::shape<19, 5>>();
  check_product<gr::transpose{.a = true}, gr::shape<9, 3>, gr::shape<9, 5>>();
  check_product<gr::transpose{.b = true}, gr::shape<3, 9>, gr::shape<5, 9>>();
  check_product<gr::transpose{.a = true, .b = true}, gr::shape<9, 3>, gr::shape<5, 9>>();
  check_product<gr::transpose{}, gr::shape<2, 2, 3, 4>, gr::shape<2, 2, 4, 5>>();
  check_product<gr::transpose{.a = true}, gr::shape<2, 4, 3>, gr::shape<2, 4, 5>>();
  check_product<gr::transpose{.b = true}, gr::shape<2, 3, 4>, gr::shape<2, 5, 4>>();
  check_product<gr::transpose{.a = true, .b = true}, gr::shape<2, 4, 3>, gr::shape<2, 5, 4>>();
  check_product<gr::transpose{}, gr::shape<2, 3, 4>, gr::shape<4, 5>>();
  check_product<gr::transpose{.a = true}, gr::shape<2, 4, 3>, gr::shape<4, 5>>();
  check_product<gr::transpose{.b = true}, gr::shape<2, 3, 4>, gr::shape<5, 4>>();
  check_product<gr::transpose{.a = true, .b = true}, gr::shape<2, 4, 3>, gr::shape<5, 4>>();
}

TEST_CASE("gradients of linear are right for one row, a vector and batches") {
  check_linear<gr::shape<1, 1>, 1>();
  check_linear<gr::shape<7>, 3>();
  check_linear<gr::shape<2, 3, 5>, 19>();
}

TEST_CASE("gradients of einsum are right: products, elementwise products, sums and permutations") {
  workplace at;
  const auto a = normal<double, gr::shape<2, 3, 4>>(at.ctx);
  const auto b = normal<double, gr::shape<4, 5, 2>>(at.ctx);
  check_gradient(
      "bij,jkb->kbi", [](auto u, auto v) { return gr::einsum<"bij,jkb->kbi">(u, v); }, a, b);
  check_gradient(
      "bij,jkc->cik", [](auto u, auto v) { return gr::einsum<"bij,jkc->cik">(u, v); }, a, b);
  check_gradient(
      "bij,jkb->bj", [](auto u, auto v) { return gr::einsum<"bij,jkb->bj">(u, v); }, a, b);
  check_gradient(
      "bij->jb", [](auto u) { return gr::einsum<"bij->jb">(u); }, a);
}
