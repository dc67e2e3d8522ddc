#include <doctest/doctest.h>

#include <limits>

#include "op_case.hpp"
#include "rows.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("softmax, logsumexp and norms are what they are defined to be") {
  truth t;
  rows_table(t);
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

TEST_CASE("the norm of a single column is the bias") {
  workplace at;
  const auto b = normal<float, gr::shape<1>>(at.ctx);
  const auto y = gr::layer_norm(normal<float, gr::shape<4, 1>>(at.ctx), normal<float, gr::shape<1>>(at.ctx), b);
  for (const float v : y.values()) CHECK(v == b(0));
}

TEST_CASE("without a tape a norm allocates its output and nothing else") {
  workplace at;
  const auto x = normal<float, gr::shape<8, 16>>(at.ctx);
  const auto w = normal<float, gr::shape<16>>(at.ctx);
  const auto before = at.stats.all().total;
  const auto y = gr::layer_norm(x, w, w);
  CHECK(at.stats.all().total - before == x.bytes);
}

TEST_CASE("one parameter may be weight and bias") {
  workplace at;
  using S = gr::shape<7>;
  const auto rows = normal<float, gr::shape<5, 7>>(at.ctx), dy = normal<float, gr::shape<5, 7>>(at.ctx);
  const auto weight = normal<float, S>(at.ctx);
  gr::tape tape(at.ctx);
  const auto both = [&] {
    const auto p = tape.variable(weight);
    return std::get<0>(gr::gradients(gr::sum(gr::layer_norm(tape.watch(rows), p, p) * dy), p));
  }();
  const auto a = tape.variable(weight), b = tape.variable(weight);
  const auto [da, db] = gr::gradients(gr::sum(gr::layer_norm(tape.watch(rows), a, b) * dy), a, b);
  const auto sum = da + db;
  CHECK(worst_error(both.values(), sum.values()) < 1e-5);
}
