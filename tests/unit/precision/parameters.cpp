// Parameters as operands of operations with several: whatever the policy stores, computes and accumulates in, the
// gradient of each arrives, near that of the same program in double.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::error_in_norm;
using gradus_test::integers;
using gradus_test::normal;
using gradus_test::workplace;

namespace {

template <class P>
using on = gr::on<gr::cpu, P>;

// A parameter with these values, rounded to what its policy stores.
template <class P, class T, gr::index_t... Extents>
gr::param<on<P>, Extents...> parameter(const gr::tensor<T, gr::shape<Extents...>>& values) {
  gr::param<on<P>, Extents...> p;
  p.set(gr::cast<typename P::store>(values));
  return p;
}

// Values that every format of 16 bits holds.
template <class Shape>
gr::tensor<float, Shape> exact(gr::context<gr::cpu>& ctx) {
  auto x = normal<float, Shape>(ctx);
  for (float& v : x.values()) v = std::round(v * 16) / 16;
  return x;
}

// Checks the gradient of p in sum(f(p, x) w), for x of floats that is watched.
template <class P, class PShape, class XShape, class F>
void check(const F& f) {
  workplace at;
  const auto values = exact<PShape>(at.ctx);
  const auto data = exact<XShape>(at.ctx);
  const auto gradient = [&]<class Q>(Q) {
    const auto p = parameter<Q>(values);
    gr::tape tape(at.ctx);
    const auto x = tape.watch(gr::cast<typename Q::store>(data));
    auto y = f(p, x);
    gr::backward(gr::sum(gr::cast<double>(y * y)) * 0.125);
    REQUIRE(p.has_gradient());
    std::vector<double> found;
    for (const auto v : p.gradient().values()) found.push_back(static_cast<double>(v));
    return found;
  };
  CHECK(error_in_norm(gradient(P{}), gradient(gr::fp64{})) < 0.03);
}

}  // namespace

TEST_CASE_TEMPLATE("parameters in every place of every operation, under each policy", P, gr::fp32, gr::bf16_mixed,
                   gr::bf16_stream, gr::bf16_gradients, gr::fp16_mixed, gr::bf16_pure) {
  using matrix = gr::shape<6, 6>;
  using row = gr::shape<6>;
  workplace at;
  const auto condition = gr::from_values<std::int32_t, row>(at.ctx, {1, 0, 0, 1, 0, 1});
  const auto targets = gr::from_values<std::int32_t, row>(at.ctx, {0, 3, -1, 5, 2, 2});
  check<P, matrix, matrix>([](auto& p, auto& x) { return p * x; });
  check<P, matrix, matrix>([](auto& p, auto& x) { return p + x; });
  check<P, row, matrix>([](auto& p, auto& x) { return x + p; });
  check<P, matrix, matrix>([](auto& p, auto& x) { return x - p; });
  check<P, row, matrix>([](auto& p, auto& x) { return x * p; });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::map([](auto a, auto b) { return a * b + a; }, p, x); });
  check<P, matrix, matrix>([&](auto& p, auto& x) { return gr::where(condition, p, x); });
  check<P, matrix, matrix>([&](auto& p, auto& x) { return gr::where(condition, x, p); });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::concat<0>(x, p); });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::matmul(p, x); });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::matmul(x, p); });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::linear(p, x); });
  check<P, matrix, matrix>([](auto& p, auto& x) { return gr::linear(x, p); });
  check<P, row, matrix>([](auto& p, auto& x) { return gr::linear(x, x, p); });
  check<P, matrix, row>([](auto& p, auto& x) { return gr::layer_norm(p, x, x); });
  check<P, row, matrix>([](auto& p, auto& x) { return gr::layer_norm(x, p, p); });
  check<P, matrix, row>([](auto& p, auto& x) { return gr::rms_norm(p, x); });
  check<P, row, matrix>([](auto& p, auto& x) { return gr::rms_norm(x, p); });
  check<P, matrix, matrix>([&](auto& p, auto& x) { return x * gr::embedding(x.recorder().watch(condition), p); });
  check<P, matrix, matrix>([&](auto& p, auto& x) { return gr::linear_cross_entropy(x, p, targets); });
  check<P, matrix, matrix>([&](auto& p, auto& x) { return gr::linear_cross_entropy(p, x, targets); });
}

TEST_CASE_TEMPLATE("parameters in every place of attention, under each policy", P, gr::fp32, gr::bf16_mixed,
                   gr::bf16_gradients, gr::fp16_mixed, gr::bf16_pure) {
  using heads = gr::shape<2, 2, 6, 8>;
  check<P, heads, heads>([](auto& p, auto& x) { return gr::attention(p, x, x); });
  check<P, heads, heads>([](auto& p, auto& x) { return gr::attention(x, p, x); });
  check<P, heads, heads>([](auto& p, auto& x) { return gr::attention<true>(x, x, p); });
  check<P, heads, heads>([](auto& p, auto& x) { return gr::attention<true>(x, p, p); });
  check<P, heads, heads>([](auto& p, auto& x) { return gr::attention<true>(gr::watch(p, x), p, p); });
}

TEST_CASE_TEMPLATE("a parameter in an operation of one's own, under each policy", P, gr::fp32, gr::bf16_mixed,
                   gr::bf16_gradients, gr::fp16_mixed, gr::bf16_pure) {
  using matrix = gr::shape<6, 6>;
  check<P, matrix, matrix>([](auto& p, auto& x) {
    return gr::custom_op(
        [](const auto& a, const auto& b) { return a * b; },
        [](const auto& dy, const auto&, const auto& a, const auto& b) { return std::tuple(dy * b, dy * a); }, p, x);
  });
}
