// Rungs of bench/train on the GPU: the naive one computes what it computes on the CPU, and graphs change no bit.
#define TRAIN_ON_GPU
#include "device.hpp"

#include <cmath>
#include <cstdint>
#include <gradus/data/token_shard.hpp>
#include <string_view>

#include "../../bench/train/run.hpp"
#include "../support/scratch_folder.hpp"

namespace {

constexpr std::size_t rung_named(std::string_view name) {
  std::size_t r = 0;
  while (bench::rungs[r].name != name) ++r;
  return r;
}
template <std::size_t R>
bench::run_result run(const bench::run_options& o) {
  return bench::run_steps<bench::models::tiny, bench::rungs[R].with>(o);
}

}  // namespace

TEST_CASE("models train on the GPU with the techniques of the ladder") {
  if (no_gpu()) return;
  const gradus_test::scratch_folder folder;
  bench::run_options o{.tokens = (folder.path / "tokens.bin").string(), .steps = 2, .warmup = 3};
  std::mt19937 random(gradus_test::fresh_seed());
  std::vector<std::uint16_t> tokens(2000);
  for (auto& t : tokens) t = static_cast<std::uint16_t>(random() % bench::models::tiny.vocabulary);
  gr::token_shard_writer shard(o.tokens);
  shard.write(tokens);
  shard.commit();

  const auto naive = run<0>(o), late = run<rung_named("prefetch")>(o), tuned = run<rung_named("tuned-products")>(o),
             graph = run<rung_named("step-graph")>(o);
  for (const auto& r : {naive, late, tuned, graph}) {
    REQUIRE(r.losses.size() == 5);
    REQUIRE(r.step_ms.size() == 1);
    for (std::size_t i = 0; i < 5; ++i) CHECK(std::abs(r.losses[i] / naive.losses[i] - 1) < 0.02);
  }
  CHECK(graph.losses == tuned.losses);  // they share a file of tuned products
  CHECK(late.step_bytes < naive.step_bytes);
}
