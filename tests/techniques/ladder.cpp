// The ladder of bench/train on a tiny model: every technique trains, and those that should change no result change none.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gradus/data/token_shard.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "../support/seed.hpp"
#include "train/run.hpp"

namespace {

constexpr std::size_t rungs_of_ladder = 1 + bench::technique_count;

// Random tokens, each below the vocabulary.
void write_tokens(const std::string& path) {
  std::mt19937 random(gradus_test::fresh_seed());
  std::vector<std::uint16_t> tokens(2000);
  for (auto& t : tokens) t = static_cast<std::uint16_t>(random() % bench::model_sizes.vocabulary);
  gradus::token_shard_writer shard(path);
  shard.write(tokens);
  shard.commit();
}

std::array<bench::run_result, rungs_of_ladder> climb(const bench::run_options& o) {
  return [&]<std::size_t... R>(std::index_sequence<R...>) {
    return std::array{bench::run_steps<bench::model_sizes, bench::rungs[R].with>(o)...};
  }(std::make_index_sequence<rungs_of_ladder>{});
}

std::size_t number_of(std::string_view name) {
  std::size_t r = 0;
  while (bench::rungs[r].name != name) ++r;
  return r;
}

}  // namespace

TEST_CASE("every rung of the ladder trains, and only those change losses that compute something else") {
  const gradus_test::scratch_folder folder;
  const std::string tokens = (folder.path / "tokens.bin").string();
  write_tokens(tokens);
  const auto runs = climb({.tokens = tokens, .steps = 3, .warmup = 1, .threads = 2});
  for (std::size_t r = 0; r < runs.size(); ++r) {
    CAPTURE(bench::rungs[r].name);
    const bench::run_result& run = runs[r];
    REQUIRE(run.losses.size() == 4);
    REQUIRE(run.step_ms.size() == 3);
    const auto& same = runs[bench::same_numbers_as(r)].losses;
    for (std::size_t step = 0; step < run.losses.size(); ++step) {
      CHECK(std::abs(run.losses[step] - same[step]) <= (bench::rungs[r].with.bf16 ? 1e-2 : 1e-4));
      // Before the first update, a model knows nothing, in whatever numbers.
      if (step == 0) CHECK(std::abs(run.losses[0] - std::log(double{bench::model_sizes.vocabulary})) < 0.2);
    }
  }
  for (const char* name : {"prefetch", "checkpoint", "planned-memory"}) {
    CAPTURE(name);
    CHECK(runs[number_of(name)].losses == runs[number_of(name) - 1].losses);
  }
  CHECK(runs[number_of("accumulate")].step_bytes < runs[number_of("naive")].step_bytes);
  CHECK(runs[number_of("fused-loss")].step_bytes < runs[number_of("flash-attention")].step_bytes);
  CHECK(runs[number_of("optimizer-8bit")].state_bytes < runs[number_of("planned-memory")].state_bytes);
  CHECK(runs.back().step_bytes < runs.front().step_bytes);
}

TEST_CASE("the ladder switches one technique more on with each rung, and the ablation one off") {
  for (std::size_t r = 0; r < bench::rungs.size(); ++r) {
    CAPTURE(r);
    const bench::rung& rung = bench::rungs[r];
    std::size_t on = 0;
    for (const bench::technique& t : bench::ladder_of_techniques) on += rung.with.*t.on;
    if (!rung.without) CHECK(on == r);
    else CHECK(on == bench::technique_count - (rung.name == "bf16" ? 2 : 1));  // there are no bf16 weights without bf16
    CHECK(bench::program_of(r) <= r);
    CHECK(bench::program_of(bench::program_of(r)) == bench::program_of(r));
  }
}
