#include <doctest/doctest.h>

#include <cstdint>

#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::reduction;

TEST_CASE("gradients of losses are right: in targets and weights, too, for any reduction, at odd sizes") {
  workplace at;
  const auto check = [&]<class S>(S) {
    const auto x = normal<double, S>(at.ctx, 3);
    const auto t = between<S>(at.ctx, 0.1, 0.9);
    const auto w = between<gr::shape<S::extent(-1)>>(at.ctx, 0.5, 2);
    check_gradient(
        "mse_loss", [](auto u, auto v) { return gr::mse_loss(u, v); }, x, t);
    check_gradient(
        "huber_loss", [](auto u, auto v) { return gr::huber_loss<reduction::sum>(u, v, 0.3); }, x, t);
    check_gradient(
        "bce_with_logits", [](auto u, auto v, auto k) { return gr::bce_with_logits<reduction::none>(u, v, k); }, x, t,
        w);
    check_gradient(
        "bce_with_logits, a number", [](auto u, auto v) { return gr::bce_with_logits(u, v, 3); }, x, t);
    check_gradient(
        "kl_divergence", [](auto u, auto v) { return gr::kl_divergence(u, v); }, x, t);
  };
  check(gr::shape<3, 19>{});
  check(gr::shape<1>{});
  const auto x = apart<gr::shape<3, 19>>(at.ctx);
  check_gradient(
      "l1_loss", [&](auto u) { return gr::l1_loss(u, gr::zeros<double, gr::shape<3, 19>>(at.ctx)); }, x);
}

TEST_CASE("gradients of losses of classes are right, with ignored rows, weights, smoothing and probabilities") {
  workplace at;
  const auto check = [&]<class S>(S) {
    using rows = gr::leading_shape<S, S::rank - 1>;
    const auto x = normal<double, S>(at.ctx);
    auto targets = integers<std::int32_t, rows>(at.ctx, -1, static_cast<int>(S::extent(-1)) - 1);
    targets.values()[0] = 0;
    const auto w = between<gr::shape<S::extent(-1)>>(at.ctx, 0.5, 2);
    const auto p = between<S>(at.ctx, 0, 1);
    check_gradient(
        "nll_loss", [&](auto u) { return gr::nll_loss(u, targets, w); }, x);
    check_gradient(
        "nll_loss, none", [&](auto u) { return gr::nll_loss<reduction::none>(u, targets); }, x);
    check_gradient(
        "cross_entropy", [&](auto u) { return gr::cross_entropy<reduction::sum>(u, targets, w, {.smoothing = 0.2}); },
        x);
    check_gradient(
        "cross_entropy, probabilities", [&](auto u, auto v) { return gr::cross_entropy(u, v, w); }, x, p);
  };
  check(gr::shape<2, 3, 19>{});
  check(gr::shape<1, 1>{});
}
