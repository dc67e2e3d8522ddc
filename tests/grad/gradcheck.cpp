// Who checks the checker: a right gradient passes, a wrong one is found and named.
#include <string>

#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
constexpr auto product = [](const auto& a, const auto& b) { return a * b; };
}  // namespace

TEST_CASE("a custom operation has the gradient that its author gave it") {
  workplace at;
  const auto a = normal<double, gr::shape<3, 5>>(at.ctx);
  const auto b = normal<double, gr::shape<3, 5>>(at.ctx);
  check_gradient(
      "square",
      [](auto v) {
        return gr::custom_op([](const auto& x) { return x * x; },
                             [](const auto& grad, const auto&, const auto& x) { return grad * x * 2.0; }, v);
      },
      a);
  check_gradient(
      "exp, from its output",
      [](auto v) {
        return gr::custom_op([](const auto& x) { return gr::exp(x); },
                             [](const auto& grad, const auto& y, const auto&) { return grad * y; }, v);
      },
      a);
  check_gradient(
      "product",
      [](auto u, auto v) {
        return gr::custom_op(
            product,
            [](const auto& grad, const auto&, const auto& x, const auto& y) {
              return std::make_tuple(grad * y, grad * x);
            },
            u, v);
      },
      a, b);
  const auto mask = integers<std::int32_t, gr::shape<3, 5>>(at.ctx, 0, 1);
  check_gradient(
      "masked",
      [&](auto v) {
        return gr::custom_op([](const auto& x, const auto& m) { return x * m; },
                             [](const auto& grad, const auto&, const auto&, const auto& m) {
                               return std::make_tuple(grad * m, std::ignore);
                             },
                             v, mask);
      },
      a);
  CHECK(same_bits(gr::custom_op(
                      product, [](const auto& grad, auto&&...) { return grad; }, a, b),
                  a * b));
}

TEST_CASE("gradcheck names the input and the element whose gradient is wrong") {
  workplace at;
  const auto a = between<gr::shape<3, 5>>(at.ctx, 1, 2);
  const auto b = between<gr::shape<3, 5>>(at.ctx, 1, 2);
  const auto wrong = gr::gradcheck(
      [](auto u, auto v) {
        return gr::custom_op(
            product,
            [](const auto& grad, const auto&, const auto& x, const auto& y) {
              auto to_y = grad * x;
              to_y(2, 1) += 0.001;
              return std::make_tuple(grad * y, to_y);
            },
            u, v);
      },
      a, b);
  CHECK(!wrong.ok);
  CHECK(wrong.input == 1);
  CHECK(wrong.element == 11);
  CHECK(wrong.from_tape == doctest::Approx(wrong.from_differences + 0.001));
  CHECK(wrong.message.find("input 1, element 11") != std::string::npos);
}

TEST_CASE("gradcheck finds a gradient that takes the place of the one that is there already") {
  workplace at;
  const auto a = between<gr::shape<3>>(at.ctx, 1, 2);
  const auto replaced = gr::gradcheck(
      [](auto u) {
        return gr::custom_op([](const auto& x) { return x * 2.0; },
                             [slot = u.slot()](const auto& grad, const auto&, const auto&) {
                               if (slot != nullptr) slot->clear();
                               return grad * 2.0;
                             },
                             u);
      },
      a);
  CHECK(!replaced.ok);
  CHECK(replaced.message.find("is not added to an existing one") != std::string::npos);
}

TEST_CASE("gradcheck finds gradients that are right in sum alone, each at the place of another") {
  workplace at;
  const auto a = between<gr::shape<3>>(at.ctx, 1, 2);
  const auto turned = gr::gradcheck(
      [](auto u) {
        return gr::custom_op([](const auto& x) { return x * 2.0; },
                             [](const auto& grad, const auto&, const auto&) {
                               return gr::concat<0>(gr::slice<0, 1, 2>(grad), gr::slice<0, 0, 1>(grad)) * 2.0;
                             },
                             u);
      },
      a);
  CHECK(!turned.ok);
}

TEST_CASE("gradcheck finds a gradient that is another one when no other input's is wanted") {
  workplace at;
  const auto a = between<gr::shape<3>>(at.ctx, 1, 2);
  const auto alone = gr::gradcheck(
      [](auto u, auto v) {
        return gr::custom_op(
            product,
            [factor = u.slot() == nullptr ? 2.0 : 1.0](const auto& grad, const auto&, const auto& x, const auto& y) {
              return std::make_tuple(grad * y, grad * x * factor);
            },
            u, v);
      },
      a, a);
  CHECK(!alone.ok);
  CHECK(alone.input == 1);
  CHECK(alone.message.find("differs if no other input's is computed") != std::string::npos);
}

TEST_CASE("gradcheck takes NaN for a wrong gradient, and a missing one for zero") {
  workplace at;
  const auto a = between<gr::shape<3>>(at.ctx, 1, 2);
  const auto nan = gr::gradcheck(
      [](auto u) {
        return gr::custom_op([](const auto& x) { return x + 0.0; },
                             [](const auto& grad, const auto&, const auto&) { return grad * double(NAN); }, u);
      },
      a);
  CHECK(!nan.ok);
  CHECK(nan.message.find("central differences ") != std::string::npos);
  CHECK(gr::gradcheck([](auto u, auto v) { return u + gr::sum(v) * 0.0; }, a, a).ok);
  CHECK(gr::gradcheck([](auto u, auto) { return u * 2.0; }, a, a).ok);
}
