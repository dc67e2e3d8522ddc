// Sampling against the plain definitions, token by token.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gradus/generate/sampling.hpp>

#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"

namespace gr = gradus;
using gradus_test::fresh_seed;
using gradus_test::message_of;

namespace {

// Every token's probability, by sorting all of them.
std::vector<double> wanted(const std::vector<float>& logits, const std::vector<std::int32_t>& before,
                           const gr::sampling_rule& rule) {
  std::vector<double> x(logits.begin(), logits.end());
  for (const std::int32_t token : std::set<std::int32_t>(before.begin(), before.end())) {
    double& l = x[static_cast<std::size_t>(token)];
    l = l > 0 ? l / rule.repetition_penalty : l * rule.repetition_penalty;
  }
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  std::vector<double> p(x.size());
  if (rule.temperature == 0) {
    p[order[0]] = 1;
    return p;
  }
  std::size_t kept = order.size();
  if (rule.top_k > 0 && rule.top_k < kept) {
    kept = rule.top_k;
    while (kept < order.size() && x[order[kept]] == x[order[rule.top_k - 1]]) ++kept;
  }
  const auto make_sum_one = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) sum += p[order[i]];
    for (std::size_t i = 0; i < order.size(); ++i) p[order[i]] = i < kept ? p[order[i]] / sum : 0;
  };
  for (std::size_t i = 0; i < kept; ++i) p[order[i]] = std::exp((x[order[i]] - x[order[0]]) / rule.temperature);
  make_sum_one();
  double sum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    sum += p[order[i]];
    if (rule.top_p < 1 && sum >= rule.top_p) kept = i + 1;
  }
  make_sum_one();
  return p;
}

std::vector<double> found(gr::token_sampler& sampler, const std::vector<float>& logits,
                          const std::vector<std::int32_t>& before) {
  std::vector<double> p(logits.size());
  for (const auto& t : sampler.probabilities(std::span<const float>(logits), std::span<const std::int32_t>(before))) {
    CHECK(p[t.token] == 0);
    p[t.token] = t.probability;
  }
  return p;
}

}  // namespace

TEST_CASE("tokens are drawn with the probabilities of the definition") {
  std::mt19937 engine(fresh_seed());
  const auto any = [&](auto... from) {
    const double all[] = {static_cast<double>(from)...};
    return all[engine() % sizeof...(from)];
  };
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + engine() % 90;
    std::vector<float> logits(count);
    std::normal_distribution<float> draw(0, 3);
    for (float& x : logits) x = draw(engine);
    if (round % 3 == 0)  // equal ones
      for (float& x : logits) x = std::round(x);
    std::vector<std::int32_t> before(engine() % 20);
    for (auto& t : before) t = static_cast<std::int32_t>(engine() % count);
    gr::sampling_rule rule{.temperature = any(0, 0.1, 0.7, 1, 3),
                           .top_k = static_cast<std::size_t>(any(0, 1, 5, 40, 1000)),
                           .top_p = any(0.0123, 0.4937, 0.9071, 1),  // no share of equal ones
                           .repetition_penalty = any(1, 1.3, 0.8)};
    gr::token_sampler sampler(rule);
    const auto p = found(sampler, logits, before), q = wanted(logits, before, rule);
    for (std::size_t i = 0; i < count; ++i) {
      CAPTURE(i);
      REQUIRE(p[i] == doctest::Approx(q[i]).epsilon(1e-9));
      REQUIRE((p[i] == 0) == (q[i] == 0));
    }
  }
}

TEST_CASE("equal draws cut [0, 1) in the tokens' shares") {
  gr::token_sampler sampler({.temperature = 1});
  const std::vector<float> logits{0, std::log(2.0f), 0};
  const auto token = [&](double draw) {
    return sampler.choose(std::span<const float>(logits), std::span<const std::int32_t>(), draw);
  };
  CHECK(token(0) == 0);
  CHECK(token(0.2499) == 0);
  CHECK(token(0.2501) == 1);
  CHECK(token(0.7499) == 1);
  CHECK(token(0.7501) == 2);
  CHECK(token(0.9999999) == 2);
}

TEST_CASE("tokens that are drawn often come as often as they are likely") {
  std::mt19937 engine(fresh_seed());
  gr::token_sampler sampler({.temperature = 0.8, .top_k = 4, .top_p = 0.9371});
  const std::vector<float> logits{1.0f, -0.5f, 0.25f, 2.0f, 0.0f, 1.5f};
  const auto p = wanted(logits, {}, {.temperature = 0.8, .top_k = 4, .top_p = 0.9371});
  std::vector<double> seen(logits.size());
  constexpr int draws = 40000;
  for (int i = 0; i < draws; ++i)
    seen[sampler.choose(std::span<const float>(logits), std::span<const std::int32_t>(),
                        std::uniform_real_distribution<double>(0, 1)(engine))] += 1.0 / draws;
  for (std::size_t i = 0; i < p.size(); ++i) {
    CHECK(std::abs(seen[i] - p[i]) <= 6 * std::sqrt(p[i] / draws));  // six standard deviations
    CHECK((seen[i] == 0) == (p[i] == 0));
  }
}

TEST_CASE("a rule that no token can be drawn by is refused, and so are logits that are no numbers") {
  CHECK(message_of([] { gr::token_sampler({.temperature = -1}); }) ==
        "sampling_rule: temperature must be 0 or more, not -1.000000");
  CHECK(message_of([] { gr::token_sampler({.top_p = 0}); }) ==
        "sampling_rule: top_p must be above 0 and at most 1, not 0.000000");
  CHECK(message_of([] { gr::token_sampler({.top_p = 1.5}); }) ==
        "sampling_rule: top_p must be above 0 and at most 1, not 1.500000");
  CHECK(message_of([] { gr::token_sampler({.top_p = std::nan("")}); }).find("top_p must be") != std::string::npos);
  CHECK(message_of([] { gr::token_sampler({.repetition_penalty = 0}); }) ==
        "sampling_rule: repetition_penalty must be above 0, not 0.000000");
  gr::token_sampler sampler({});
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits{0, bad};
    CHECK(message_of([&] { (void)found(sampler, logits, {}); }) ==
          "the logit of token 1 is not finite: the model's parameters are damaged, or its training diverged");
  }
}
