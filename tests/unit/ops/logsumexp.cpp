#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// log(sum(e^x)) of each row and its gradient, in double.
outcome wanted(std::size_t columns, const std::vector<double>& x, const std::vector<double>& dy) {
  outcome o;
  o.gradients.emplace_back(x.size());
  for (std::size_t row = 0; row < dy.size(); ++row) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::size_t i = 0; i < columns; ++i) top = std::max(top, x[row * columns + i]);
    for (std::size_t i = 0; i < columns; ++i) sum += std::exp(x[row * columns + i] - top);
    o.y.push_back(top + std::log(sum));
    for (std::size_t i = 0; i < columns; ++i)
      o.gradients[0][row * columns + i] = dy[row] * std::exp(x[row * columns + i] - o.y.back());
  }
  return o;
}

template <class Shape, class T = float>
void check(double spread, double middle = 0, double tolerance = 1e-6) {
  workplace at;
  values drawn = draw_normal(Shape::size, spread, fresh_seed());
  for (double& v : drawn) v += middle;
  gr::tensor<T, Shape> x(at.ctx);
  put(drawn, std::span<T>(x.values()));
  const auto dy = normal<gr::compute_type<T>, gr::reduced_shape<Shape, gr::axes<-1>>>(at.ctx);
  const auto found = evaluate(
      at.ctx, [](auto v) { return gr::logsumexp(v); }, dy, x);
  const outcome o = wanted(Shape::extent(-1), numbers(x), numbers(dy));
  CHECK(worst_error(numbers(found).y, o.y) < 1e-5);
  CHECK(worst_error(numbers(found).gradients[0], o.gradients[0]) < tolerance);
  CHECK(same_bits(gr::logsumexp(x), found.y));  // without a tape
}

}  // namespace

TEST_CASE("logsumexp is what it is defined to be, at odd sizes and without overflow") {
  check<gr::shape<3, 5, 13>>(2);
  check<gr::shape<1, 16>>(2);
  check<gr::shape<9, 1>>(2);
  check<gr::shape<37, 129>>(3);
  check<gr::shape<100>>(1e4);
  check<gr::shape<5, 19>>(1, 1e4);  // its y has a spacing of 1e-3
  check<gr::shape<3, 35>>(1, -1e4);
  check<gr::shape<3, 19>, double>(2);
  check<gr::shape<3, 19>, gr::bf16>(2, 0, 4e-3);
  check<gr::shape<3, 19>, gr::f16>(2, 0, 5e-4);
}

TEST_CASE("logsumexp of a row of -inf is -inf, and its gradient is 0") {
  workplace at;
  const auto x = gr::full<float, gr::shape<2, 19>>(at.ctx, -std::numeric_limits<float>::infinity());
  gr::tape tape{at.ctx};
  auto v = tape.variable(x);
  auto y = gr::logsumexp(v);
  for (const float one : y.value().values()) CHECK(one == -std::numeric_limits<float>::infinity());
  gr::backward(gr::sum(y));
  for (const float one : v.gradient().values()) CHECK(one == 0);
}
