// An update whose gradient norm is far above the ones before is left out, as if its step had not been.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config small{2, 2, 16, 8, 61};
constexpr gr::index_t batch = 2;
using training = gpt::training<gr::cpu, small, batch>;

struct trained {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  training t;
  explicit trained(double skip_spikes) : t(ctx, ctx, {.skip_spikes = skip_spikes}) {}

  // Takes a step, and returns the norm of its gradients.
  double step(std::uint32_t number) {
    std::vector<std::uint8_t> tokens(batch * small.context + 1);
    for (gr::index_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::uint8_t>(gr::random_key{.seed = 3, .step = number}.words(i)[0] % small.vocabulary);
    t.load(0, tokens.data(), tokens.data() + 1);
    t.step();
    return t.send_loss().norm();
  }
  std::vector<float> values() {
    std::vector<float> all;
    gr::visit_params(t.net, [&](const auto& p) {
      const auto some = gr::to_host(p.value());
      all.insert(all.end(), some.begin(), some.end());
    });
    return all;
  }
};

}  // namespace

TEST_CASE("a spike leaves parameters, optimizer states and gradients as they were") {
  trained some(4), plain(0);
  for (std::uint32_t i = 0; i < 40; ++i) {
    const double norm = some.step(i);
    CHECK(norm > 0);
    CHECK(norm == plain.step(i));
  }
  REQUIRE(some.t.spikes.spikes == 0);
  const std::vector<float> before = some.values();
  CHECK(before == plain.values());

  const gr::spike_filter usual = some.t.spikes;
  some.t.spikes.sum /= 1000;  // as if all norms had been far smaller
  some.t.spikes.squares /= 1000 * 1000;
  some.step(40);
  CHECK(some.t.spikes.spikes == 1);
  CHECK(some.t.spikes.score > 4);
  CHECK(some.values() == before);

  some.t.spikes = usual;
  CHECK(some.step(41) == plain.step(41));  // no gradient of the step before is left
  CHECK(some.values() == plain.values());
}
