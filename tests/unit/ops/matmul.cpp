#include <doctest/doctest.h>

#include <vector>

#if __has_include(<Eigen/Core>)
#include <gradus/interop/eigen.hpp>
#endif

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <bool Ta, bool Tb, gr::index_t M, gr::index_t K, gr::index_t N>
void check() {
  workplace at;
  const auto a = normal<float, std::conditional_t<Ta, gr::shape<K, M>, gr::shape<M, K>>>(at.ctx);
  const auto b = normal<float, std::conditional_t<Tb, gr::shape<N, K>, gr::shape<K, N>>>(at.ctx);
  const auto wanted = reference::matmul({M, K, N, Ta, Tb}, 1, numbers(a), numbers(b)).y;
  CHECK(worst_error(numbers(gr::matmul<gr::transpose{.a = Ta, .b = Tb}>(a, b)), wanted) < 1e-5);
}

}  // namespace

TEST_CASE("matrix products agree with plain loops at odd sizes, transposed or not") {
  check<false, false, 1, 1, 1>();
  check<false, false, 7, 19, 5>();
  check<true, false, 7, 19, 5>();
  check<false, true, 7, 19, 5>();
  check<true, true, 7, 19, 5>();
  check<false, false, 129, 65, 33>();
  check<false, false, 1, 300, 17>();
}

#if __has_include(<Eigen/Core>)
namespace {

template <class T, gr::index_t M, gr::index_t K, gr::index_t N>
void check_against_eigen(double tolerance) {
  workplace at;
  const auto a = normal<T, gr::shape<M, K>>(at.ctx);
  const auto b = normal<T, gr::shape<K, N>>(at.ctx);
  const auto a_transposed = gr::permute<1, 0>(a);
  const auto b_transposed = gr::permute<1, 0>(b);
  // Sizes of run time, because Eigen puts what has compile-time sizes on the stack.
  using matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const matrix left = gr::as_eigen(a).template cast<double>(), right = gr::as_eigen(b).template cast<double>();
  const matrix product = left * right;
  const std::vector<double> wanted(product.data(), product.data() + product.size());
  CHECK(worst_error(gr::to_host(gr::matmul(a, b)), wanted) < tolerance);
  CHECK(worst_error(gr::to_host(gr::matmul<gr::transpose{.a = true}>(a_transposed, b)), wanted) < tolerance);
  CHECK(worst_error(gr::to_host(gr::matmul<gr::transpose{.b = true}>(a, b_transposed)), wanted) < tolerance);
}

}  // namespace

TEST_CASE("matrix products agree with Eigen's, also at sizes of more than one block") {
  check_against_eigen<float, 1, 1, 1>(1e-6);
  check_against_eigen<float, 7, 19, 5>(1e-5);
  check_against_eigen<float, 33, 517, 129>(1e-4);
  check_against_eigen<float, 257, 1031, 67>(1e-4);
  check_against_eigen<double, 129, 601, 65>(1e-12);
}
#endif

TEST_CASE("linear adds its bias, and its gradients are those of the product and the sum") {
  workplace at;
  const auto x = normal<float, gr::shape<3, 5, 17>>(at.ctx);
  const auto w = normal<float, gr::shape<17, 9>>(at.ctx);
  const auto b = normal<float, gr::shape<9>>(at.ctx);
  const auto dy = normal<float, gr::shape<3, 5, 9>>(at.ctx);
  const auto direct = evaluate(
      at.ctx, [](auto v, auto m, auto s) { return gr::linear(v, m, s); }, dy, x, w, b);
  const auto parts = evaluate(
      at.ctx, [](auto v, auto m, auto s) { return gr::matmul(v, m) + s; }, dy, x, w, b);
  CHECK(worst_error(direct.y.values(), parts.y.values()) < 1e-6);
  CHECK(worst_error(std::get<0>(direct.gradients).values(), std::get<0>(parts.gradients).values()) < 1e-6);
  CHECK(worst_error(std::get<1>(direct.gradients).values(), std::get<1>(parts.gradients).values()) < 1e-6);
  CHECK(worst_error(std::get<2>(direct.gradients).values(), std::get<2>(parts.gradients).values()) < 1e-6);
}
