// Losses over classes whose targets count in part, or not at all.
#include <doctest/doctest.h>

#include <cstdint>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::shape;

TEST_CASE("a mean over no targets, or over targets without weight, is 0 and has no gradient, in every loss") {
  workplace at;
  const auto x = normal<float, shape<4, 5>>(at.ctx);
  const auto table = normal<float, shape<5, 5>>(at.ctx);
  const auto one = gr::full<float, shape<>>(at.ctx, 1.0f);
  const auto ignored = gr::full<std::int32_t, shape<4>>(at.ctx, -1);
  const auto second = gr::full<std::int32_t, shape<4>>(at.ctx, 1);
  const auto weights = gr::from_values<float, shape<5>>(at.ctx, {1, 0, 1, 1, 1});
  const auto check = [&](const char* what, const auto& f) {
    CAPTURE(what);
    const auto found = evaluate(at.ctx, f, one, x);
    CHECK(gr::item(found.y) == 0);
    for (const float g : std::get<0>(found.gradients).values()) CHECK(g == 0);
  };
  check("cross_entropy", [&](auto v) { return gr::cross_entropy(v, ignored); });
  check("cross_entropy, smoothing", [&](auto v) { return gr::cross_entropy(v, ignored, {.smoothing = 0.1}); });
  check("cross_entropy, sum", [&](auto v) { return gr::cross_entropy<gr::reduction::sum>(v, ignored); });
  check("cross_entropy, weights", [&](auto v) { return gr::cross_entropy(v, second, weights); });
  check("cross_entropy, weights, smoothing",
        [&](auto v) { return gr::cross_entropy(v, second, weights, {.smoothing = 0.1}); });
  check("nll_loss", [&](auto v) { return gr::nll_loss(v, ignored); });
  check("nll_loss, weights", [&](auto v) { return gr::nll_loss(v, second, weights); });
  check("linear_cross_entropy", [&](auto v) { return gr::linear_cross_entropy(v, table, ignored); });
  check("linear_cross_entropy, sum",
        [&](auto v) { return gr::linear_cross_entropy<gr::reduction::sum>(v, table, ignored); });
}

TEST_CASE("sums are means times the count of targets, with their gradients") {
  workplace at;
  const auto x = normal<double, shape<2, 3, 5>>(at.ctx);
  const auto table = normal<double, shape<7, 5>>(at.ctx);
  const auto one = gr::full<double, shape<>>(at.ctx, 1.0);
  const auto targets = gr::from_values<std::int32_t, shape<2, 3>>(at.ctx, {6, -1, 0, 3, -1, 2});
  CHECK(gr::item(gr::count_targets(targets)) == 4);
  CHECK(gr::item(gr::count_targets(targets, 3)) == 5);
  const auto sum = evaluate(
      at.ctx, [&](auto v, auto t) { return gr::linear_cross_entropy<gr::reduction::sum>(v, t, targets); }, one, x,
      table);
  const auto logits = evaluate(
      at.ctx,
      [&](auto v, auto t) {
        return gr::cross_entropy<gr::reduction::sum>(gr::matmul<gr::transpose{.b = true}>(v, t), targets);
      },
      one, x, table);
  CHECK(worst_error(sum.y, logits.y) < 1e-12);
  CHECK(worst_error(std::get<0>(sum.gradients), std::get<0>(logits.gradients)) < 1e-12);
  CHECK(worst_error(std::get<1>(sum.gradients), std::get<1>(logits.gradients)) < 1e-12);
}
