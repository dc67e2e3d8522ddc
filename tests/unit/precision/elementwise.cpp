// Elementwise operations, reductions and moves of bf16 and f16 against their definitions in double.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "rounding.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using pair = std::pair<double, double>;

definition binary(double (*f)(double, double), pair (*derivatives)(double, double)) {
  return [=](const values& dy, const std::vector<values>& xs) {
    return reference::binary({3, 1, 19}, {5, 1}, xs[0], xs[1], dy, f, derivatives);
  };
}
definition unary(double (*f)(double), double (*derivative)(double)) {
  return [=](const values& dy, const std::vector<values>& xs) { return reference::unary(xs[0], dy, f, derivative); };
}
definition reduce(reference::reduction what, const std::vector<std::size_t>& axes) {
  return [=](const values& dy, const std::vector<values>& xs) {
    return reference::reduce(what, reference::groups({3, 37, 5}, axes), xs[0], dy);
  };
}
definition moved(const std::vector<std::size_t>& from) {
  return [=](const values& dy, const std::vector<values>& xs) { return reference::moved(from, xs[0], dy); };
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_density(double x) { return 0.3989422804014327 * std::exp(-x * x / 2); }
double normal_distribution(double x) { return 0.5 * std::erfc(-x * 0.7071067811865476); }
// gelu's approximation by tanh: the argument, and the argument's derivative.
double inner(double x) { return 0.7978845608028654 * (x + 0.044715 * x * x * x); }
double inner_slope(double x) { return 0.7978845608028654 * (1 + 3 * 0.044715 * x * x); }

}  // namespace

TEST_CASE_TEMPLATE("elementwise operations of two operands on 16 bits round once", T, gr::bf16, gr::f16) {
  workplace at;
  const auto a = normal<double, gr::shape<3, 1, 19>>(at.ctx);
  const auto b = normal<double, gr::shape<5, 1>>(at.ctx);
  auto positive = normal<double, gr::shape<5, 1>>(at.ctx, 0.25);
  for (double& v : positive.values()) v = std::exp(v);
  check<T>(
      "add", 2, [](const auto& u, const auto& v) { return u + v; },
      binary([](double u, double v) { return u + v; }, [](double, double) { return pair(1, 1); }), a, b);
  check<T>(
      "subtract", 2, [](const auto& u, const auto& v) { return u - v; },
      binary([](double u, double v) { return u - v; }, [](double, double) { return pair(1, -1); }), a, b);
  check<T>(
      "multiply", 4, [](const auto& u, const auto& v) { return u * v; },
      binary([](double u, double v) { return u * v; }, [](double u, double v) { return pair(v, u); }), a, b);
  check<T>(
      "divide", 8, [](const auto& u, const auto& v) { return u / v; },
      binary([](double u, double v) { return u / v; }, [](double u, double v) { return pair(1 / v, -u / (v * v)); }), a,
      positive);
  check<T>(
      "maximum", 2, [](const auto& u, const auto& v) { return gr::maximum(u, v); },
      binary([](double u, double v) { return std::max(u, v); },
             [](double u, double v) { return u > v ? pair(1, 0) : pair(0, 1); }),
      a, b);
}

TEST_CASE_TEMPLATE("elementwise operations of one operand on 16 bits round once", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<7, 33>>(at.ctx);
  auto p = gr::clone(x);
  for (double& v : p.values()) v = std::exp(v);
  check<T>(
      "affine", 2, [](const auto& u) { return u * 3.0 + 0.5; },
      unary([](double u) { return u * 3 + 0.5; }, [](double) { return 3.0; }), x);
  check<T>(
      "exp", 2, [](const auto& u) { return gr::exp(u); }, unary(std::exp, std::exp), x);
  check<T>(
      "log", 2, [](const auto& u) { return gr::log(u); }, unary(std::log, [](double u) { return 1 / u; }), p);
  check<T>(
      "sqrt", 2, [](const auto& u) { return gr::sqrt(u); },
      unary(std::sqrt, [](double u) { return 0.5 / std::sqrt(u); }), p);
  check<T>(
      "rsqrt", 2, [](const auto& u) { return gr::rsqrt(u); },
      unary([](double u) { return 1 / std::sqrt(u); }, [](double u) { return -0.5 / (u * std::sqrt(u)); }), p);
  check<T>(
      "tanh", 2, [](const auto& u) { return gr::tanh(u); },
      unary(std::tanh, [](double u) { return 1 - std::tanh(u) * std::tanh(u); }), x);
  check<T>(
      "sigmoid", 2, [](const auto& u) { return gr::sigmoid(u); },
      unary(sigmoid, [](double u) { return sigmoid(u) * sigmoid(-u); }), x);
  check<T>(
      "silu", 2, [](const auto& u) { return gr::silu(u); },
      unary([](double u) { return u * sigmoid(u); }, [](double u) { return sigmoid(u) * (1 + u * sigmoid(-u)); }), x);
  check<T>(
      "gelu", 2, [](const auto& u) { return gr::gelu(u); },
      unary([](double u) { return 0.5 * u * (1 + std::tanh(inner(u))); },
            [](double u) {
              const double t = std::tanh(inner(u));
              return 0.5 * (1 + t) + 0.5 * u * (1 - t * t) * inner_slope(u);
            }),
      x);
  check<T>(
      "gelu_erf", 2, [](const auto& u) { return gr::gelu_erf(u); },
      unary([](double u) { return u * normal_distribution(u); },
            [](double u) { return normal_distribution(u) + u * normal_density(u); }),
      x);
  check<T>(
      "relu", 2, [](const auto& u) { return gr::relu(u); },
      unary([](double u) { return u > 0 ? u : 0; }, [](double u) { return u > 0 ? 1.0 : 0.0; }), x);
  check<T>(
      "pow", 2, [](const auto& u) { return gr::pow(u, 2.5); },
      unary([](double u) { return std::pow(u, 2.5); }, [](double u) { return 2.5 * std::pow(u, 1.5); }), p);
}

TEST_CASE_TEMPLATE("reductions of 16 bits add up in float and give float", T, gr::bf16, gr::f16) {
  using reference::reduction;
  workplace at;
  const auto x = normal<double, gr::shape<3, 37, 5>>(at.ctx);
  check<T>(
      "sum", 2, [](const auto& u) { return gr::sum(u); }, reduce(reduction::sum, {0, 1, 2}), x);
  check<T>(
      "sum_1", 2, [](const auto& u) { return gr::sum<1>(u); }, reduce(reduction::sum, {1}), x);
  check<T>(
      "mean_02", 2, [](const auto& u) { return gr::mean<0, 2>(u); }, reduce(reduction::mean, {0, 2}), x);
  check<T>(
      "max_2", 2, [](const auto& u) { return gr::max<2>(u); }, reduce(reduction::max, {2}), x);
  check<T>(
      "variance_1", 4, [](const auto& u) { return gr::variance<1>(u); }, reduce(reduction::variance, {1}), x);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::sum(in<T>(x)))>, float>);
  static_assert(std::is_same_v<gr::value_of_t<decltype(gr::max(in<T>(x)))>, T>);
}

TEST_CASE_TEMPLATE("what only moves 16 bits loses none", T, gr::bf16, gr::f16) {
  workplace at;
  const auto x = normal<double, gr::shape<3, 7, 21>>(at.ctx);
  const auto tokens = integers<std::int32_t, gr::shape<4, 5>>(at.ctx, 0, 10);
  const auto table = normal<double, gr::shape<11, 33>>(at.ctx);
  check<T>(
      "permute", 0.01, [](const auto& u) { return gr::permute<2, 0, 1>(u); },
      moved(reference::permuted({3, 7, 21}, {2, 0, 1})), x);
  check<T>(
      "reshape", 0.01, [](const auto& u) { return gr::reshape<21, 21>(u); },
      moved(reference::permuted({3, 7, 21}, {0, 1, 2})), x);
  check<T>(
      "slice", 0.01, [](const auto& u) { return gr::slice<1, 2, 4>(u); }, moved(reference::sliced({3, 7, 21}, 1, 2, 4)),
      x);
  check<T>(
      "concat", 0.01, [](const auto& u, const auto& v) { return gr::concat<0>(u, v); },
      [](const values& dy, const std::vector<values>& xs) {
        outcome r{xs[0], {}};
        r.y.insert(r.y.end(), xs[1].begin(), xs[1].end());
        const auto middle = dy.begin() + static_cast<std::ptrdiff_t>(xs[0].size());
        r.gradients = {values(dy.begin(), middle), values(middle, dy.end())};
        return r;
      },
      x, gr::slice<0, 1, 2>(x));
  check<T>(
      "embedding", 8, [](const auto& t, const auto& u) { return gr::embedding(t, u); },
      [](const values& dy, const std::vector<values>& xs) { return reference::embedding(33, xs[0], xs[1], dy); },
      tokens, table);
}
