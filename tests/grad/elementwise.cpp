#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <class S>
void check_unary() {
  workplace at;
  const auto x = normal<double, S>(at.ctx);
  const auto positive = between<S>(at.ctx, 0.3, 2.5);
  const auto distinct = apart<S>(at.ctx);
  check_gradient(
      "negate", [](auto v) { return -v; }, x);
  check_gradient(
      "x * 2 + 1", [](auto v) { return v * 2.0 + 1.0; }, x);
  check_gradient(
      "3 - x", [](auto v) { return 3.0 - v; }, x);
  check_gradient(
      "x / 3", [](auto v) { return v / 3.0; }, x);
  check_gradient(
      "3 / x", [](auto v) { return 3.0 / v; }, positive);
  check_gradient(
      "exp", [](auto v) { return gr::exp(v); }, x);
  check_gradient(
      "log", [](auto v) { return gr::log(v); }, positive);
  check_gradient(
      "sqrt", [](auto v) { return gr::sqrt(v); }, positive);
  check_gradient(
      "rsqrt", [](auto v) { return gr::rsqrt(v); }, positive);
  check_gradient(
      "tanh", [](auto v) { return gr::tanh(v); }, x);
  check_gradient(
      "sigmoid", [](auto v) { return gr::sigmoid(v); }, x);
  check_gradient(
      "silu", [](auto v) { return gr::silu(v); }, x);
  check_gradient(
      "gelu", [](auto v) { return gr::gelu(v); }, x);
  check_gradient(
      "gelu_erf", [](auto v) { return gr::gelu_erf(v); }, x);
  check_gradient(
      "erf", [](auto v) { return gr::erf(v); }, x);
  check_gradient(
      "sin", [](auto v) { return gr::sin(v * 3); }, x);
  check_gradient(
      "cos", [](auto v) { return gr::cos(v * 3); }, x);
  check_gradient(
      "log1p", [](auto v) { return gr::log1p(v - 1); }, positive);
  check_gradient(
      "expm1", [](auto v) { return gr::expm1(v); }, x);
  check_gradient(
      "softplus", [](auto v) { return gr::softplus(v * 4); }, x);
  check_gradient(
      "steps", [](auto v) { return v * gr::floor(v + 0.123) + gr::ceil(v * v) + gr::round(v) + v * gr::sign(v); },
      distinct);
  check_gradient(
      "pow 2.5", [](auto v) { return gr::pow(v, 2.5); }, positive);
  check_gradient(
      "pow 3", [](auto v) { return gr::pow(v, 3.0); }, x);
  check_gradient(
      "relu", [](auto v) { return gr::relu(v); }, distinct);
  check_gradient(
      "abs", [](auto v) { return gr::abs(v); }, distinct);
  check_gradient(
      "clamp", [](auto v) { return gr::clamp(v, -0.1, 0.1); }, distinct);
  check_gradient(
      "x * x, one operand twice", [](auto v) { return v * v; }, x);
}

template <class A, class B>
void check_binary() {
  workplace at;
  const auto a = normal<double, A>(at.ctx);
  const auto b = normal<double, B>(at.ctx);
  const auto positive_a = between<A>(at.ctx, 0.3, 2.5);
  const auto positive_b = between<B>(at.ctx, 0.3, 2.5);
  const auto low = between<A>(at.ctx, -1.0, 0.45);
  const auto high = between<B>(at.ctx, 0.5, 1.0);
  check_gradient(
      "a + b", [](auto u, auto v) { return u + v; }, a, b);
  check_gradient(
      "a - b", [](auto u, auto v) { return u - v; }, a, b);
  check_gradient(
      "a * b", [](auto u, auto v) { return u * v; }, a, b);
  check_gradient(
      "a / b", [](auto u, auto v) { return u / v; }, a, positive_b);
  check_gradient(
      "pow(a, b)", [](auto u, auto v) { return gr::pow(u, v); }, positive_a, b);
  check_gradient(
      "atan2", [](auto u, auto v) { return gr::atan2(u, v) + gr::atan2(v, u); }, positive_a, b);
  check_gradient(
      "beside a number", [](auto u) { return gr::maximum(u, 0.0) * gr::minimum(0.25, u) + gr::maximum(-0.5, u); }, low);
  check_gradient(
      "minimum", [](auto u, auto v) { return gr::minimum(u, v); }, low, high);
  check_gradient(
      "maximum", [](auto u, auto v) { return gr::maximum(u, v * v); }, low, high);
  check_gradient(
      "swiglu", [](auto u, auto v) { return gr::swiglu(u, v); }, low, high);
}

struct blend {
  template <class T>
  T operator()(T w, T a, T b, T c) const {
    return w * a + (T(1) - w) * b * c;
  }
};

}  // namespace

TEST_CASE("gradients of functions of one operand are right for one element, odd counts and more than a pack") {
  check_unary<gr::shape<>>();
  check_unary<gr::shape<3, 19>>();
}

TEST_CASE("gradients of functions of two operands are right, however their shapes broadcast") {
  check_binary<gr::shape<1>, gr::shape<1>>();
  check_binary<gr::shape<3, 19>, gr::shape<3, 19>>();
  check_binary<gr::shape<3, 1, 5>, gr::shape<4, 1>>();
  check_binary<gr::shape<2, 19>, gr::shape<>>();
  check_binary<gr::shape<19>, gr::shape<2, 3, 1>>();
  check_binary<gr::shape<2, 3, 17>, gr::shape<17>>();
}

TEST_CASE("gradients of where and of a user's functor of four operands are right") {
  workplace at;
  const auto a = normal<double, gr::shape<3, 1, 5>>(at.ctx);
  const auto b = normal<double, gr::shape<4, 1>>(at.ctx);
  const auto c = normal<double, gr::shape<>>(at.ctx);
  const auto w = between<gr::shape<3, 4, 5>>(at.ctx, 0, 1);
  const auto condition = integers<std::int32_t, gr::shape<3, 4, 5>>(at.ctx, 0, 1);
  check_gradient(
      "where", [&](auto u, auto v) { return gr::where(condition, u, v); }, a, b);
  check_gradient(
      "where, with an integer operand", [](auto m, auto u, auto v) { return gr::where(m, u, v); }, condition, a, b);
  check_gradient(
      "map", [](auto s, auto u, auto v, auto k) { return gr::map(blend{}, s, u, v, k); }, w, a, b, c);
}
