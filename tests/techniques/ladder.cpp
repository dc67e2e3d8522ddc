// The ladder of bench/train on a tiny model: every technique trains, and those that should change no result change
// none.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <gradus/data/token_shard.hpp>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../support/scratch_folder.hpp"
#include "../support/seed.hpp"
#include "train/run.hpp"

namespace {

// Every technique is in one of these rungs, and one is of the ablation; there is more to compile than to run, so not
// all of them are taken.
constexpr std::size_t tested[] = {0, 2, 3, 5, 6, 8, 9, 11, 13, 21};

// Random tokens, each below the vocabulary.
void write_tokens(const std::string& path) {
  std::mt19937 random(gradus_test::fresh_seed());
  std::vector<std::uint16_t> tokens(2000);
  for (auto& t : tokens) t = static_cast<std::uint16_t>(random() % bench::model_sizes.vocabulary);
  gradus::token_shard_writer shard(path);
  shard.write(tokens);
  shard.commit();
}

// By number of the rung.
std::map<std::size_t, bench::run_result> climb(const bench::run_options& o) {
  std::map<std::size_t, bench::run_result> runs;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((runs[tested[I]] = bench::run_steps<bench::model_sizes, bench::rungs[tested[I]].with>(o)), ...);
  }(std::make_index_sequence<std::size(tested)>{});
  return runs;
}

}  // namespace

TEST_CASE("models train with the techniques of the ladder, and only those change losses that compute something else") {
  const gradus_test::scratch_folder folder;
  const std::string tokens = (folder.path / "tokens.bin").string();
  write_tokens(tokens);
  const auto runs = climb({.tokens = tokens, .steps = 3, .warmup = 1, .threads = 2});
  const std::vector<double> fp32 = runs.at(0).losses, bf16 = runs.at(8).losses;
  for (const auto& one : runs) {
    const std::size_t r = one.first;
    const bench::run_result& run = one.second;
    CAPTURE(bench::rungs[r].name);
    const bench::techniques with = bench::rungs[r].with;
    REQUIRE(run.losses.size() == 4);
    REQUIRE(run.step_ms.size() == 3);
    for (std::size_t step = 0; step < run.losses.size(); ++step) {
      if (!with.tied_weights) CHECK(std::abs(run.losses[step] - fp32[step]) <= 1e-4);
      // Before they have learned, models know nothing, in whatever numbers.
      CHECK(std::abs(run.losses[step] - std::log(static_cast<double>(bench::model_sizes.vocabulary))) < 0.2);
      if (with.bf16) CHECK(std::abs(run.losses[step] - runs.at(6).losses[step]) <= 2e-2);
    }
  }
  CHECK(runs.at(9).losses == bf16);   // prefetch
  CHECK(runs.at(11).losses == bf16);  // checkpoint and planned memory
  CHECK(runs.at(2).step_bytes < runs.at(0).step_bytes);
  CHECK(runs.at(13).state_bytes < runs.at(11).state_bytes);
  CHECK(runs.at(13).step_bytes < runs.at(11).step_bytes);
}

TEST_CASE("the ladder switches one technique more on with each rung, and the ablation one off") {
  for (std::size_t r = 0; r < bench::rungs.size(); ++r) {
    CAPTURE(r);
    const bench::rung& rung = bench::rungs[r];
    std::size_t on = 0;
    for (const bench::technique& t : bench::ladder_of_techniques) on += rung.with.*t.on;
    if (!rung.without) CHECK(on == r);
    else if (rung.name == "bf16") CHECK(on == bench::technique_count - 2);             // nor weights in bf16
    else if (rung.name == "fused-optimizer") CHECK(on == bench::technique_count - 3);  // nor planned memory, nor 8 bits
    else CHECK(on == bench::technique_count - 1);
    CHECK(bench::program_of(r) <= r);
    CHECK(bench::program_of(bench::program_of(r)) == bench::program_of(r));
  }
}
