// Every operation on bf16 and f16 against the same operation on the same values in double: outputs and gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::error_in_norm;
using gradus_test::integers;
using gradus_test::normal;
using gradus_test::workplace;
using gradus_test::worst_error;

namespace {

// Half a unit in the last place, relative: what one rounding costs.
template <class T>
constexpr double rounding = std::is_same_v<T, gr::bf16> ? 0x1p-8 : 0x1p-11;

template <class T, class X>
auto in(const X& x) {
  if constexpr (gr::is_floating<typename X::value_type>) return gr::cast<T>(x);
  else return x;
}

// f on variables of element type T, unwound from dy.
template <class T, class F, class DY, class... Xs>
auto run(gr::context<gr::cpu>& ctx, const F& f, const DY& dy, const Xs&... xs) {
  gr::tape tape{ctx};
  const auto variable = [&](const auto& x) {
    if constexpr (gr::is_floating<typename std::remove_cvref_t<decltype(x)>::value_type>)
      return tape.variable(in<T>(x));
    else return x;
  };
  return [&](const auto&... vs) {
    auto y = f(vs...);
    using Y = gr::value_of_t<decltype(y)>;
    if (y.slot() != nullptr) y.slot()->give(gr::cast<Y>(dy));
    auto value = gr::cast<double>(y.value());
    tape.unwind();
    const auto gradient = [](const auto& v) {
      if constexpr (gr::is_traced<std::remove_cvref_t<decltype(v)>>) return gr::cast<double>(v.gradient());
      else return v;
    };
    return std::make_tuple(std::move(value), gradient(vs)...);
  }(variable(xs)...);
}

// `roundings`: how many of them an element of the result goes through, about. They bound the error of the whole; a
// single element may have lost more, where large terms cancel.
template <class T, class Shape, class F, class... Xs>
void check(const char* what, double roundings, const F& f, const Xs&... xs) {
  workplace at;
  // The values are those that T has, so that only the operation's own errors are seen.
  const auto exact = std::make_tuple(in<double>(in<T>(xs))...);
  auto gradient = normal<double, Shape>(at.ctx);
  for (double& v : gradient.values()) v += std::copysign(0.5, v);  // a tiny one would leave f16's range
  const auto dy = gr::cast<double>(gr::cast<T>(gradient));
  const auto found = std::apply([&](const auto&... x) { return run<T>(at.ctx, f, dy, x...); }, exact);
  const auto wanted = std::apply([&](const auto&... x) { return run<double>(at.ctx, f, dy, x...); }, exact);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (
        [&] {
          CAPTURE(std::string(what));
          CAPTURE(I);  // 0: the output; then the operands' gradients
          const auto& got = std::get<I>(found).values();
          const auto& right = std::get<I>(wanted).values();
          CHECK(error_in_norm(got, right) < roundings * rounding<T>);
          CHECK(worst_error(got, right) < 8 * roundings * rounding<T>);
        }(),
        ...);
  }(std::make_index_sequence<1 + sizeof...(Xs)>{});
}

}  // namespace

TEST_CASE_TEMPLATE("elementwise operations on 16 bits round once", T, gr::bf16, gr::f16) {
  workplace at;
  const auto a = normal<double, gr::shape<3, 1, 19>>(at.ctx);
  const auto b = normal<double, gr::shape<5, 1>>(at.ctx);
  const auto x = normal<double, gr::shape<7, 33>>(at.ctx);
  const auto p = gr::exp(x);  // positive
  using ab = gr::shape<3, 5, 19>;
  using s = gr::shape<7, 33>;
  check<T, ab>(
      "add", 2, [](const auto& u, const auto& v) { return u + v; }, a, b);
  check<T, ab>(
      "subtract", 2, [](const auto& u, const auto& v) { return u - v; }, a, b);
  check<T, ab>(
      "multiply", 4, [](const auto& u, const auto& v) { return u * v; }, a, b);
  check<T, ab>(
      "divide", 8, [](const auto& u, const auto& v) { return u / v; }, a, gr::exp(b * 0.25));
  check<T, ab>(
      "maximum", 2, [](const auto& u, const auto& v) { return gr::maximum(u, v); }, a, b);
  check<T, s>(
      "affine", 2, [](const auto& u) { return u * 3.0 + 0.5; }, x);
  check<T, s>(
      "exp", 2, [](const auto& u) { return gr::exp(u); }, x);
  check<T, s>(
      "log", 2, [](const auto& u) { return gr::log(u); }, p);
  check<T, s>(
      "sqrt", 2, [](const auto& u) { return gr::sqrt(u); }, p);
  check<T, s>(
      "rsqrt", 2, [](const auto& u) { return gr::rsqrt(u); }, p);
  check<T, s>(
      "tanh", 2, [](const auto& u) { return gr::tanh(u); }, x);
  check<T, s>(
      "sigmoid", 2, [](const auto& u) { return gr::sigmoid(u); }, x);
  check<T, s>(
      "silu", 2, [](const auto& u) { return gr::silu(u); }, x);
  check<T, s>(
      "gelu", 2, [](const auto& u) { return gr::gelu(u); }, x);
  check<T, s>(
      "gelu_erf", 2, [](const auto& u) { return gr::gelu_erf(u); }, x);
  check<T, s>(
      "relu", 2, [](const auto& u) { return gr::relu(u); }, x);
  check<T, s>(
      "pow", 2, [](const auto& u) { return gr::pow(u, 2.5); }, p);
}

TEST_CASE_TEMPLATE("reductions of 16 bits add up in float and give float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<3, 37, 5>>(at.ctx);
  check<T, gr::shape<>>(
      "sum", 2, [](const auto& u) { return gr::sum(u); }, x);
  check<T, gr::shape<3, 5>>(
      "sum_1", 2, [](const auto& u) { return gr::sum<gr::axes<1>>(u); }, x);
  check<T, gr::shape<37>>(
      "mean_02", 2, [](const auto& u) { return gr::mean<gr::axes<0, 2>>(u); }, x);
  check<T, gr::shape<3, 37>>(
      "max_2", 2, [](const auto& u) { return gr::max<gr::axes<2>>(u); }, x);
  check<T, gr::shape<3, 5>>(
      "variance_1", 4, [](const auto& u) { return gr::variance<gr::axes<1>>(u); }, x);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::sum(in<T>(x)))>, float>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::max(in<T>(x)))>, T>);
}

TEST_CASE_TEMPLATE("products of 16 bits add up in float and round once", T, gr::bf16, gr::f16) {
  workplace at;
  const auto a = normal<double, gr::shape<2, 5, 600>>(at.ctx);
  const auto b = normal<double, gr::shape<600, 33>>(at.ctx);
  const auto bt = normal<double, gr::shape<2, 33, 600>>(at.ctx);
  using s = gr::shape<2, 5, 33>;
  check<T, s>(
      "matmul", 2, [](const auto& u, const auto& v) { return gr::matmul(u, v); }, a, b);
  check<T, s>(
      "matmul_nt", 2, [](const auto& u, const auto& v) { return gr::matmul<gr::transpose{.b = true}>(u, v); }, a, bt);
  const auto x = normal<double, gr::shape<3, 7, 19>>(at.ctx);
  const auto w = normal<double, gr::shape<19, 21>>(at.ctx);
  const auto bias = normal<double, gr::shape<21>>(at.ctx);
  check<T, gr::shape<3, 7, 21>>(
      "linear", 2, [](const auto& u, const auto& v, const auto& c) { return gr::linear(u, v, c); }, x, w, bias);
}

TEST_CASE_TEMPLATE("norms and softmax of 16 bits compute in float and give float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<9, 37>>(at.ctx);
  const auto w = normal<double, gr::shape<37>>(at.ctx);
  const auto b = normal<double, gr::shape<37>>(at.ctx);
  using s = gr::shape<9, 37>;
  check<T, s>(
      "layer_norm", 4, [](const auto& u, const auto& v, const auto& c) { return gr::layer_norm(u, v, c); }, x, w, b);
  check<T, s>(
      "rms_norm", 4, [](const auto& u, const auto& v) { return gr::rms_norm(u, v); }, x, w);
  check<T, s>(
      "softmax", 4, [](const auto& u) { return gr::softmax(u); }, x);
  check<T, s>(
      "log_softmax", 4, [](const auto& u) { return gr::log_softmax(u); }, x);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::softmax(in<T>(x)))>, float>);
}

TEST_CASE_TEMPLATE("attention of 16 bits keeps its scores in float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto qkv = normal<double, gr::shape<2, 37, 3 * 3 * 10>>(at.ctx);
  check<T, gr::shape<2, 37, 30>>(
      "causal_attention", 8, [](const auto& u) { return gr::causal_attention<3>(u); }, qkv);
  // Several blocks of queries and of keys, and rows that are no whole pairs.
  const auto longer = normal<double, gr::shape<1, 133, 3 * 2 * 7>>(at.ctx);
  check<T, gr::shape<1, 133, 14>>(
      "causal_attention of blocks", 8, [](const auto& u) { return gr::causal_attention<2>(u); }, longer);
  const auto q = normal<double, gr::shape<2, 3, 21, 10>>(at.ctx);
  const auto k = normal<double, gr::shape<2, 3, 35, 10>>(at.ctx);
  const auto v = normal<double, gr::shape<2, 3, 35, 10>>(at.ctx);
  check<T, gr::shape<2, 3, 21, 10>>(
      "attention", 8, [](const auto& a, const auto& b, const auto& c) { return gr::attention(a, b, c); }, q, k, v);
}

TEST_CASE_TEMPLATE("losses of 16 bits compute in float and give float", T, gr::bf16, gr::f16) {
  workplace at;
  const auto logits = normal<double, gr::shape<11, 70>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<11>>(at.ctx, -1, 66);
  check<T, gr::shape<>>(
      "cross_entropy", 4, [](const auto& u, const auto& t) { return gr::cross_entropy<67>(u, t); }, logits, targets);
  const auto x = normal<double, gr::shape<11, 19>>(at.ctx, 0.5);
  const auto table = normal<double, gr::shape<70, 19>>(at.ctx, 0.5);
  check<T, gr::shape<>>(
      "linear_cross_entropy", 4,
      [](const auto& u, const auto& v, const auto& t) { return gr::linear_cross_entropy<67>(u, v, t); }, x, table,
      targets);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::cross_entropy(in<T>(logits), targets))>, float>);
}

TEST_CASE("a scaled loss keeps the small gradients of logits in f16") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto logits = tape.variable(gr::full<gr::f16, gr::shape<4096, 512>>(at.ctx, gr::f16(0.0f)));
  const auto targets = gr::zeros<std::int32_t, gr::shape<4096>>(at.ctx);
  const auto [g] = gr::gradients(gr::cross_entropy(logits, targets) * 65536.0, logits);
  const double small = 65536.0 / 512 / 4096;  // without the scale 4.8e-7, of which f16 has 3 bits
  CHECK(static_cast<double>(static_cast<float>(g(17, 5))) == doctest::Approx(small).epsilon(1e-3));
  CHECK(static_cast<double>(static_cast<float>(g(17, 0))) == doctest::Approx(small - 16).epsilon(1e-3));
}

TEST_CASE_TEMPLATE("what only moves 16 bits loses none", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<3, 7, 21>>(at.ctx);
  const auto tokens = integers<std::int32_t, gr::shape<4, 5>>(at.ctx, 0, 10);
  const auto table = normal<double, gr::shape<11, 33>>(at.ctx);
  check<T, gr::shape<21, 3, 7>>(
      "permute", 0.01, [](const auto& u) { return gr::permute<2, 0, 1>(u); }, x);
  check<T, gr::shape<21, 21>>(
      "reshape", 0.01, [](const auto& u) { return gr::reshape<21, 21>(u); }, x);
  check<T, gr::shape<3, 4, 21>>(
      "slice", 0.01, [](const auto& u) { return gr::slice<1, 2, 4>(u); }, x);
  check<T, gr::shape<3, 14, 21>>(
      "concat", 0.01, [](const auto& u, const auto& v) { return gr::concat<1>(u, v); }, x, gr::clone(x));
  check<T, gr::shape<4, 5, 33>>(
      "embedding", 8, [](const auto& t, const auto& u) { return gr::embedding(t, u); }, tokens, table);
}

namespace {
// The gradient of a 16 x 8 parameter under policy P, as doubles. The parameter has bf16 values under every policy.
template <class P, class Loss>
std::vector<double> gradient_under(const Loss& loss) {
  workplace at;
  gr::param<gr::on<gr::cpu, P>, 16, 8> w;
  const auto values = gr::cast<gr::bf16>(gr::normal<float, gr::shape<16, 8>>(at.ctx, {.seed = 1}));
  w.set(gr::cast<typename decltype(w)::value_type>(values));
  gr::tape tape{at.ctx};
  gr::backward(loss(at.ctx, tape, w));
  std::vector<double> found;
  for (const auto& v : gr::to_host(w.gradient())) found.push_back(static_cast<double>(static_cast<float>(v)));
  return found;
}
template <class Loss>
void check_rounded_once(const Loss& loss) {
  const auto wanted = gradient_under<gr::bf16_mixed>(loss);
  const auto check = [&](const std::vector<double>& found) {
    double worst = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - wanted[i]) / std::abs(wanted[i]));
    CHECK(worst <= 1.01 * 0x1p-8);
  };
  check(gradient_under<gr::bf16_gradients>(loss));
  check(gradient_under<gr::bf16_pure>(loss));
}
}  // namespace

TEST_CASE("a bf16 gradient that an operation sums over chunks or batches is rounded once") {
  check_rounded_once([](auto& ctx, auto& tape, const auto& table) {
    const auto x = tape.watch(gr::normal<float, gr::shape<512, 8>>(ctx, {.seed = 2}));
    const auto targets = gr::arange<std::int32_t, 512>(ctx);
    return gr::apply(gr::op::linear_cross_entropy<16, 32>{-1}, x, table, targets - targets / 16 * 16);
  });
  check_rounded_once([](auto& ctx, auto& tape, const auto& w) {
    const auto x = tape.watch(gr::normal<float, gr::shape<64, 16, 4>>(ctx, {.seed = 2}, 1, 1));
    return gr::sum(gr::matmul<gr::transpose{.a = true}>(x, w));
  });
}
