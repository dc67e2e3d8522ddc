#include <doctest/doctest.h>

#include <cstdint>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
using cube = gr::shape<3, 5, 7>;
const given<gr::shape<3, 1, 5>> a{"a"};
const given<gr::shape<4, 1>> b{"b"};
const given<cube> x{"x"};
}  // namespace

TEST_CASE_TEMPLATE("broadcasting arithmetic has PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "add", [](auto u, auto v) { return u + v; }, a, b);
  check_case<T>(
      "sub", [](auto u, auto v) { return u - v; }, a, b);
  check_case<T>(
      "mul", [](auto u, auto v) { return u * v; }, a, b);
  check_case<T>(
      "div", [](auto u, auto v) { return u / v; }, a, b);
  check_case<T>(
      "minimum", [](auto u, auto v) { return gr::minimum(u, v); }, a, b);
  check_case<T>(
      "maximum", [](auto u, auto v) { return gr::maximum(u, v); }, a, b);
  check_case<T>(
      "pow_tensor", [](auto u, auto v) { return gr::pow(u, v); }, given<cube>{"a"}, given<cube>{"b"});
}

TEST_CASE_TEMPLATE("functions of one operand have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "neg", [](auto v) { return -v; }, x);
  check_case<T>(
      "exp", [](auto v) { return gr::exp(v); }, x);
  check_case<T>(
      "log", [](auto v) { return gr::log(v); }, x);
  check_case<T>(
      "sqrt", [](auto v) { return gr::sqrt(v); }, x);
  check_case<T>(
      "rsqrt", [](auto v) { return gr::rsqrt(v); }, x);
  check_case<T>(
      "tanh", [](auto v) { return gr::tanh(v); }, x);
  check_case<T>(
      "sigmoid", [](auto v) { return gr::sigmoid(v); }, x);
  check_case<T>(
      "relu", [](auto v) { return gr::relu(v); }, x);
  check_case<T>(
      "gelu_tanh", [](auto v) { return gr::gelu(v); }, x);
  check_case<T>(
      "gelu_erf", [](auto v) { return gr::gelu_erf(v); }, x);
  check_case<T>(
      "silu", [](auto v) { return gr::silu(v); }, x);
  check_case<T>(
      "abs", [](auto v) { return gr::abs(v); }, x);
  check_case<T>(
      "pow", [](auto v) { return gr::pow(v, 2.5); }, x);
  check_case<T>(
      "pow_int", [](auto v) { return gr::pow(v, 3.0); }, x);
  check_case<T>(
      "clamp", [](auto v) { return gr::clamp(v, -0.5, 0.75); }, x);
}

TEST_CASE_TEMPLATE("where has PyTorch's values and gradients", T, double, float) {
  workplace at;
  const auto condition = recorded<std::int32_t, cube>(at.ctx, "where.cond");
  check_case<T>(
      "where", [&](auto u, auto v) { return gr::where(condition, u, v); }, given<cube>{"a"}, given<cube>{"b"});
}
