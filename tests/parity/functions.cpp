#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::reduction;

namespace {

using cube = gr::shape<3, 5, 7>;
using rows = gr::shape<4, 5, 17>;
const given<cube> x{"x"}, t{"t"};
const given<rows> logits{"x"}, probabilities{"t"};

template <class T, reduction R>
void check_losses(const std::string& suffix) {
  check_case<T>(
      "mse" + suffix, [](auto u, auto v) { return gr::mse_loss<R>(u, v); }, x, t);
  check_case<T>(
      "l1" + suffix, [](auto u, auto v) { return gr::l1_loss<R>(u, v); }, x, t);
  check_case<T>(
      "huber" + suffix, [](auto u, auto v) { return gr::huber_loss<R>(u, v, 0.7); }, x, t);
  check_case<T>(
      "bce" + suffix, [](auto u, auto v) { return gr::bce_with_logits<R>(u, v); }, x, t);
  check_case<T>(
      "kl" + suffix, [](auto u, auto v) { return gr::kl_divergence<R>(u, v); }, x, t);

  workplace at;
  const auto targets = [&](const std::string& name) {
    return recorded<std::int32_t, gr::shape<4, 5>>(at.ctx, name + suffix + ".t");
  };
  const auto weights = [&](const std::string& name) {
    return recorded<T, gr::shape<17>>(at.ctx, name + suffix + ".w");
  };
  check_case<T>(
      "nll" + suffix, [&](auto u) { return gr::nll_loss<R>(u, targets("nll")); }, logits);
  check_case<T>(
      "nll_weighted" + suffix,
      [&](auto u) { return gr::nll_loss<R>(u, targets("nll_weighted"), weights("nll_weighted")); }, logits);
  check_case<T>(
      "ce" + suffix, [&](auto u) { return gr::cross_entropy<R>(u, targets("ce")); }, logits);
  check_case<T>(
      "ce_smooth" + suffix, [&](auto u) { return gr::cross_entropy<R>(u, targets("ce_smooth"), {.smoothing = 0.1}); },
      logits);
  check_case<T>(
      "ce_weighted" + suffix,
      [&](auto u) {
        return gr::cross_entropy<R>(u, targets("ce_weighted"), weights("ce_weighted"), {.smoothing = 0.1});
      },
      logits);
  check_case<T>(
      "ce_soft" + suffix, [](auto u, auto v) { return gr::cross_entropy<R>(u, v, {.smoothing = 0.1}); }, logits,
      probabilities);
}

template <class Axis>
void check_argmin(const std::string& name) {
  workplace at;
  const auto found = gr::argmin<Axis>(recorded<double, cube>(at.ctx, name + ".x"));
  const auto wanted = recorded_ops(name + ".y").values(name + ".y");
  CHECK(std::equal(wanted.begin(), wanted.end(), found.values().begin(), found.values().end()));
}

// Of 16-bit operands: the output within the type's precision.
template <class T, class F>
void check_short(const std::string& name, const F& f) {
  workplace at;
  const auto y = gr::cast<float>(f(gr::cast<T>(recorded<float, cube>(at.ctx, name + ".x"))));
  CAPTURE(name);
  CHECK(worst_error(y.values(), recorded_ops(name + ".y").values(name + ".y")) <
        (std::is_same_v<T, gr::bf16> ? 2e-2 : 3e-3));
}

}  // namespace

TEST_CASE_TEMPLATE("sine to sign have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "sin", [](auto v) { return gr::sin(v * 3); }, x);
  check_case<T>(
      "cos", [](auto v) { return gr::cos(v * 3); }, x);
  check_case<T>(
      "erf", [](auto v) { return gr::erf(v); }, x);
  check_case<T>(
      "log1p", [](auto v) { return gr::log1p(v); }, x);
  check_case<T>(
      "expm1", [](auto v) { return gr::expm1(v); }, x);
  check_case<T>(
      "softplus", [](auto v) { return gr::softplus(v); }, x);
  check_case<T>(
      "steps", [](auto v) { return gr::floor(v) + gr::ceil(v) * v + gr::round(v) + gr::sign(v); }, x);
  check_case<T>(
      "atan2", [](auto u, auto v) { return gr::atan2(u, v); }, given<gr::shape<3, 1, 5>>{"a"},
      given<gr::shape<4, 1>>{"b"});
}

TEST_CASE_TEMPLATE("products, deviations, logsumexp and running sums have PyTorch's values and gradients", T, double,
                   float) {
  check_case<T>(
      "prod_0", [](auto v) { return gr::prod<0>(v); }, x);
  check_case<T>(
      "prod_1", [](auto v) { return gr::prod<1>(v); }, x);
  check_case<T>(
      "prod_2", [](auto v) { return gr::prod<-1>(v); }, x);
  check_case<T>(
      "prod_all", [](auto v) { return gr::prod(v); }, x);
  check_case<T>(
      "std_1", [](auto v) { return gr::standard_deviation<1>(v); }, x);
  check_case<T>(
      "std_02", [](auto v) { return gr::standard_deviation<0, 2>(v); }, x);
  check_case<T>(
      "logsumexp_1", [](auto v) { return gr::logsumexp<1>(v); }, x);
  check_case<T>(
      "logsumexp_02", [](auto v) { return gr::logsumexp<0, 2>(v); }, x);
  check_case<T>(
      "cumsum_0", [](auto v) { return gr::cumsum<0>(v); }, x);
  check_case<T>(
      "cumsum_1", [](auto v) { return gr::cumsum<1>(v); }, x);
  check_case<T>(
      "cumsum_2", [](auto v) { return gr::cumsum<-1>(v); }, x);
}

TEST_CASE("argmin finds PyTorch's indices") {
  check_argmin<gr::axes<0>>("argmin_0");
  check_argmin<gr::axes<1>>("argmin_1");
  check_argmin<gr::axes<2>>("argmin_2");
}

TEST_CASE_TEMPLATE("losses have PyTorch's values and gradients, for every reduction", T, double, float) {
  check_losses<T, reduction::mean>("");
  if constexpr (std::is_same_v<T, double>) {
    check_losses<T, reduction::sum>("_sum");
    check_losses<T, reduction::none>("_none");
  }
  workplace at;
  const auto weights = recorded<T, gr::shape<7>>(at.ctx, "bce_weighted.w");
  check_case<T>(
      "bce_weighted", [&](auto u, auto v) { return gr::bce_with_logits(u, v, weights); }, x, t);
}

TEST_CASE_TEMPLATE("functions of 16-bit operands have PyTorch's values within their precision", T, gr::bf16, gr::f16) {
  check_short<T>("erf", [](auto v) { return gr::erf(v); });
  check_short<T>("expm1", [](auto v) { return gr::expm1(v); });
  check_short<T>("log1p", [](auto v) { return gr::log1p(v); });
  check_short<T>("softplus", [](auto v) { return gr::softplus(v); });
  check_short<T>("prod_0", [](auto v) { return gr::prod<0>(v); });
  check_short<T>("std_02", [](auto v) { return gr::standard_deviation<0, 2>(v); });
  check_short<T>("cumsum_1", [](auto v) { return gr::cumsum<1>(v); });
}
