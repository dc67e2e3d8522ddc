// Checkpointing a GPT changes memory and time, and not one bit of what it learns.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

struct run_result {
  std::vector<float> losses;
  std::vector<std::vector<float>> gradients, weights;
  bool operator==(const run_result&) const = default;
};

template <gpt::config C, gr::index Batch>
run_result train(const gr::region_schedule& regions, int threads) {
  gr::stream stream;
  gr::set_thread_count(stream, threads);
  gr::host_resource heap;
  gr::context persistent{stream, heap};
  gr::context transient{stream, heap};
  gpt::training<gr::cpu, C, Batch> t(persistent, transient, {.dropout = 0.1, .seed = 11, .regions = regions});
  run_result r;
  std::vector<std::uint8_t> inputs(Batch * C.context), targets(inputs.size());
  for (std::uint32_t step = 0; step < 3; ++step) {
    for (gr::index i = 0; i < inputs.size(); ++i) {
      const auto w = gr::random_key{.seed = 3, .step = step}.words(i);
      inputs[i] = static_cast<std::uint8_t>(w[0] % C.vocabulary);
      targets[i] = static_cast<std::uint8_t>(w[1] % C.vocabulary);
    }
    r.losses.push_back(t.add_batch(inputs.data(), targets.data()));
    gr::visit_params(t.net, [&](const auto& p) { r.gradients.push_back(gr::to_host(p.gradient())); });
    t.update();
  }
  gr::visit_params(t.net, [&](const auto& p) { r.weights.push_back(gr::to_host(p.value())); });
  return r;
}

// Every block by the same policy; one policy a block; a region over several blocks with regions inside.
std::vector<gr::region_schedule> schedules(gr::index layers) {
  std::vector<gr::region_schedule> all;
  for (const std::uint64_t keep :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0b0010010010}, std::uint64_t{0b1000100}})
    all.push_back(gr::region_schedule::every_block(layers, keep));
  gr::region_schedule mixed;
  for (gr::index i = 0; i < layers; ++i) mixed.parts.push_back({i, i, i % 2 == 0, i * 37});
  all.push_back(mixed);
  gr::region_schedule nested;
  nested.parts = {{0, layers - 2, true, 0}, {layers - 1, layers - 1, false}};
  for (gr::index i = 0; i + 1 < layers; ++i) nested.parts[0].inner.push_back({i, i, i + 2 < layers, i * 3});
  all.push_back(nested);
  return all;
}

template <gpt::config C, gr::index Batch>
void check_all() {
  const auto plain = train<C, Batch>({}, 2);
  CHECK(train<C, Batch>({}, 1) == plain);
  for (const auto& s : schedules(C.layers)) {
    CHECK(train<C, Batch>(s, 2) == plain);
    CHECK(train<C, Batch>(s, 1) == plain);
  }
}

}  // namespace

TEST_CASE(
    "losses, gradients and weights of three steps with dropout are the same bits under every schedule and thread "
    "count") {
  check_all<gpt::config{4, 3, 39, 13, 61}, 3>();
  check_all<gpt::config{3, 4, 128, 64, 250}, 6>();
}

TEST_CASE("a schedule for another number of blocks is refused") {
  CHECK_THROWS_WITH_AS(
      (train<gpt::config{2, 1, 8, 4, 11}, 1>(gr::region_schedule::every_block(3), 1)),
      "chain(blocks, x, schedule, f): the schedule's parts do not cover the chain's 2 blocks in order; it "
      "was made for another model",
      gr::error);
}

TEST_CASE("regions nest as deep as max_depth says, also around one block, and no deeper") {
  const auto run = [](const gr::region_schedule& s) { return train<gpt::config{2, 1, 8, 4, 11}, 1>(s, 1); };
  const gr::chain_part kept{0, 0, true, 5};
  gr::region_schedule s;
  s.parts = {{0, 0, true, 0, {kept}}, {1, 1, false}};
  CHECK(run(s) == run({}));
  for (gr::index depth = 1; depth <= gr::region_schedule::max_depth; ++depth)
    s.parts[0] = {0, 0, true, 0, {s.parts[0]}};
  CHECK_THROWS_WITH_AS(
      run(s), "chain(blocks, x, schedule, f): the schedule nests regions deeper than region_schedule::max_depth",
      gr::error);
}
