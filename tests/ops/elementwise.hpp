// The table of functions of elements, and of operands that broadcast.
#pragma once

#include <gradus/ops/elementwise/arithmetic.hpp>
#include <gradus/ops/elementwise/functions.hpp>
#include <gradus/ops/elementwise/selection.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "../support/reference.hpp"
#include "drawn.hpp"

namespace gradus_test {

struct fused {
  template <class T>
  T operator()(T a, T b, T c) const {
    using gradus::math::exp;
    return a * exp(-b) + c;
  }
};

/// Functions of one operand.
template <class R>
void functions_table(R& r) {
  namespace gr = gradus;
  // A function of one operand: where x is drawn, and the function in double.
  using function = double (*)(double);
  const auto each = [](function f) {
    return [=](std::vector<values> of) {
      std::transform(of[0].begin(), of[0].end(), of[0].begin(), f);
      return of[0];
    };
  };
  const auto one = [&](const char* name, const auto& f, function wanted, const drawn& how = {}) {
    r.template also<gr::shape<3, 19>>(name, f, each(wanted), how);
  };
  const auto in_bf16 = [&](const char* name, const auto& f, function wanted) {
    r.template hold<gr::shape<3, 19>>(name, f, each(wanted));
  };
  const drawn positive{.low = 0.3, .high = 2.5}, apart{.apart = true};
  one(
      "negate", [](auto x) { return -x; }, [](double x) { return -x; });
  one(
      "x * 2 + 1", [](auto x) { return x * 2.0 + 1.0; }, [](double x) { return x * 2 + 1; });
  one(
      "3 - x", [](auto x) { return 3.0 - x; }, [](double x) { return 3 - x; });
  one(
      "x / 3", [](auto x) { return x / 3.0; }, [](double x) { return x / 3; });
  one(
      "3 / x", [](auto x) { return 3.0 / x; }, [](double x) { return 3 / x; }, positive);
  in_bf16(
      "exp", [](auto x) { return gr::exp(x); }, [](double x) { return std::exp(x); });
  one(
      "log", [](auto x) { return gr::log(x); }, [](double x) { return std::log(x); }, positive);
  one(
      "sqrt", [](auto x) { return gr::sqrt(x); }, [](double x) { return std::sqrt(x); }, positive);
  one(
      "rsqrt", [](auto x) { return gr::rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, positive);
  in_bf16(
      "tanh", [](auto x) { return gr::tanh(x); }, [](double x) { return std::tanh(x); });
  one(
      "sigmoid", [](auto x) { return gr::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); });
  one(
      "silu", [](auto x) { return gr::silu(x); }, [](double x) { return x / (1 + std::exp(-x)); });
  in_bf16(
      "gelu", [](auto x) { return gr::gelu(x); },
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1)) * (x + 0.044715 * x * x * x))); });
  one(
      "gelu_erf", [](auto x) { return gr::gelu_erf(x); },
      [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); });
  one(
      "erf", [](auto x) { return gr::erf(x); }, [](double x) { return std::erf(x); });
  one(
      "sin", [](auto x) { return gr::sin(x * 3); }, [](double x) { return std::sin(3 * x); });
  one(
      "cos", [](auto x) { return gr::cos(x * 3); }, [](double x) { return std::cos(3 * x); });
  one(
      "log1p", [](auto x) { return gr::log1p(x - 1); }, [](double x) { return std::log1p(x - 1); }, positive);
  one(
      "expm1", [](auto x) { return gr::expm1(x); }, [](double x) { return std::expm1(x); });
  one(
      "softplus", [](auto x) { return gr::softplus(x * 4); }, [](double x) { return std::log1p(std::exp(4 * x)); });
  one(
      "floor and sign", [](auto x) { return x * gr::floor(x + 0.123) + gr::sign(x); },
      [](double x) { return x * std::floor(x + 0.123) + (x > 0 ? 1 : -1); }, apart);
  one(
      "ceil and round", [](auto x) { return x * gr::ceil(x + 0.123) + x * gr::round(x * 3 + 0.123); },
      [](double x) { return x * std::ceil(x + 0.123) + x * std::nearbyint(x * 3 + 0.123); }, apart);
  one(
      "pow 2.5", [](auto x) { return gr::pow(x, 2.5); }, [](double x) { return std::pow(x, 2.5); }, positive);
  one(
      "pow 3", [](auto x) { return gr::pow(x, 3.0); }, [](double x) { return x * x * x; });
  one(
      "relu", [](auto x) { return gr::relu(x); }, [](double x) { return std::max(x, 0.0); }, apart);
  one(
      "abs", [](auto x) { return gr::abs(x); }, [](double x) { return std::abs(x); }, apart);
  one(
      "clamp", [](auto x) { return gr::clamp(x, -0.1, 0.1); }, [](double x) { return std::clamp(x, -0.1, 0.1); },
      {.apart = true});
  one(
      "beside a number", [](auto x) { return gr::maximum(x, 0.0) * gr::minimum(0.25, x) + gr::maximum(-0.5, x); },
      [](double x) { return std::max(x, 0.0) * std::min(0.25, x) + std::max(-0.5, x); }, apart);
  in_bf16(
      "x * x + x, one operand twice", [](auto x) { return x * x + x; }, [](double x) { return x * x + x; });
  r.template also<gr::shape<>>(
      "exp", [](auto x) { return gr::exp(x); }, each([](double x) { return std::exp(x); }));
  r.template large<gr::shape<100003>>(
      "2 x + 1", [](auto x) { return 2.0 * x + 1.0; }, each([](double x) { return 2 * x + 1; }));
}

/// Functions of several operands, whose shapes broadcast.
template <class R>
void operators_table(R& r) {
  namespace gr = gradus;
  const drawn positive{.low = 0.3, .high = 2.5}, apart{.apart = true};
  // A function of two operands, whose shapes broadcast.
  const auto broadcast = []<class A, class B>(A, B, double (*f)(double, double)) {
    return [=](const std::vector<values>& of) {
      return reference::binary({A::extents.begin(), A::extents.end()}, {B::extents.begin(), B::extents.end()}, of[0],
                               of[1], {}, f, nullptr)
          .y;
    };
  };
  const auto two = [&](const char* name, const auto& f, double (*wanted)(double, double), const drawn& how = {}) {
    using A = gr::shape<2, 3, 17>;
    using B = gr::shape<17>;
    r.template also<A, B>(name, f, broadcast(A{}, B{}, wanted), how);
  };
  const auto shapes = [&]<class A, class B>(A, B) {
    r.template also<A, B>(
        "x * y - x", [](auto x, auto y) { return x * y - x; },
        broadcast(A{}, B{}, [](double x, double y) { return x * y - x; }));
  };
  two(
      "a + b", [](auto x, auto y) { return x + y; }, [](double x, double y) { return x + y; });
  two(
      "a - b", [](auto x, auto y) { return x - y; }, [](double x, double y) { return x - y; });
  two(
      "a * b", [](auto x, auto y) { return x * y; }, [](double x, double y) { return x * y; });
  two(
      "a / b", [](auto x, auto y) { return x / y; }, [](double x, double y) { return x / y; }, positive);
  two(
      "pow", [](auto x, auto y) { return gr::pow(x, y); }, [](double x, double y) { return std::pow(x, y); }, positive);
  two(
      "atan2", [](auto x, auto y) { return gr::atan2(x, y) + gr::atan2(y, x * 2.0); },
      [](double x, double y) { return std::atan2(x, y) + std::atan2(y, 2 * x); }, positive);
  two(
      "minimum", [](auto x, auto y) { return gr::minimum(x, y + 0.0033); },
      [](double x, double y) { return std::min(x, y + 0.0033); }, apart);
  two(
      "maximum", [](auto x, auto y) { return gr::maximum(x, y + 0.0033); },
      [](double x, double y) { return std::max(x, y + 0.0033); }, apart);
  two(
      "swiglu", [](auto x, auto y) { return gr::swiglu(x, y); },
      [](double x, double y) { return x / (1 + std::exp(-x)) * y; });
  shapes(gr::shape<1>{}, gr::shape<2, 3>{});
  shapes(gr::shape<3, 1, 5>{}, gr::shape<4, 1>{});
  shapes(gr::shape<2, 19>{}, gr::shape<>{});
  shapes(gr::shape<19>{}, gr::shape<2, 3, 1>{});
  shapes(gr::shape<7, 1, 1>{}, gr::shape<1, 3, 33>{});
  shapes(gr::shape<2, 3, 4, 5>{}, gr::shape<3, 1, 5>{});
  shapes(gr::shape<300, 70>{}, gr::shape<300, 1>{});
  shapes(gr::shape<2, 20000>{}, gr::shape<2, 1>{});  // rows longer than what is laid out of an operand
  r.template hold<gr::shape<70, 100>, gr::shape<100>, gr::shape<70, 1>>(
      "a user's functor of three operands", [](auto x, auto y, auto z) { return gr::map(fused{}, x, y, z); });
}

}  // namespace gradus_test
