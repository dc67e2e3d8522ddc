// The trainer's step where the loss is scaled, because products are computed in f16.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <vector>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config sizes{.layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 256};
template <class P>
using training = gpt::training<gr::cpu, sizes, 2, std::uint8_t, P>;

struct fixture {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  std::vector<std::uint8_t> inputs, targets;

  fixture() {
    for (int i = 0; i < 16; ++i) {
      inputs.push_back(static_cast<std::uint8_t>(7 * i));
      targets.push_back(static_cast<std::uint8_t>(11 * i));
    }
  }
};

template <class Training>
std::vector<float> weights(const Training& t) {
  return gr::to_host(t.net.blocks[0].mlp.up.weight.value());
}

}  // namespace

TEST_CASE_FIXTURE(fixture, "a scaled loss gives the update of the plain one") {
  // With clipping, whose norm must be that of the unscaled gradients, and without; over two batches.
  for (const double clip : {0.0, 0.01}) {
    CAPTURE(clip);
    const gr::training_options options{
        .clip = clip, .accumulate = 2, .adamw = {.lr = 1e-2, .eps = 1e-3, .weight_decay = 0}};
    training<gr::fp32> plain(ctx, ctx, options);
    training<gr::fp16_mixed> scaled(ctx, ctx, options);
    const auto before = weights(plain);
    static_assert(!training<gr::fp32>::scales_loss && training<gr::fp16_mixed>::scales_loss);
    CHECK(scaled.loss_scale() == 65536);
    for (int i = 0; i < 2; ++i)
      CHECK(scaled.add_batch(inputs.data(), targets.data()) ==
            doctest::Approx(plain.add_batch(inputs.data(), targets.data())).epsilon(1e-3));
    plain.update();
    scaled.update();
    CHECK(scaled.optimizer.skipped() == 0);
    const auto expected = weights(plain), got = weights(scaled);
    double error = 0, moved = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      error += std::abs(static_cast<double>(got[i] - expected[i]));
      moved += std::abs(static_cast<double>(expected[i] - before[i]));
    }
    CHECK(moved > 0);
    CHECK(error < 0.02 * moved);
  }
}

TEST_CASE_FIXTURE(fixture, "a step whose gradients overflow is skipped, and the next one is taken") {
  training<gr::fp16_mixed> t(ctx, ctx, {});
  const auto start = gr::to_host(t.net.positions.value());
  t.add_batch(inputs.data(), targets.data());
  t.update();
  REQUIRE(t.optimizer.skipped() == 0);
  // Weights that f16 cannot hold make the products of one step infinite.
  const auto good = gr::clone(t.net.blocks[0].mlp.up.weight.value());
  t.net.blocks[0].mlp.up.weight.set(gr::full<float, gr::shape<16, 64>>(ctx, 1e6f, gr::category::parameter));
  const auto before = gr::to_host(t.net.positions.value());
  CHECK(before != start);
  t.add_batch(inputs.data(), targets.data());
  t.update();
  CHECK(t.optimizer.skipped() == 1);
  CHECK(t.loss_scale() == 32768);
  CHECK(gr::to_host(t.net.positions.value()) == before);
  CHECK(t.optimizer.steps() == 1);
  t.net.blocks[0].mlp.up.weight.set(good);
  t.add_batch(inputs.data(), targets.data());
  t.update();
  CHECK(t.optimizer.steps() == 2);
  CHECK(gr::to_host(t.net.positions.value()) != before);
}
