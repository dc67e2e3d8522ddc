#include <doctest/doctest.h>

#include <gradus/plan/chain_planner.hpp>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../../support/chain_simulation.hpp"

using namespace gradus;
using gradus_test::simulate;

namespace {

using nodes = std::vector<schedule_node>;

/// Every schedule of the stages [begin, end) with `options` options each and regions nested at most `depth` deep.
std::vector<nodes> all_schedules(std::size_t begin, std::size_t end, std::size_t options, std::size_t depth) {
  if (begin == end) return {nodes{}};
  std::vector<nodes> result;
  const auto add = [&](const schedule_node& first, const std::vector<nodes>& rests) {
    for (const nodes& rest : rests) {
      result.push_back({first});
      result.back().insert(result.back().end(), rest.begin(), rest.end());
    }
  };
  const std::vector<nodes> after_one = all_schedules(begin + 1, end, options, depth);
  for (std::size_t o = 0; o < options; ++o) add({begin, begin, o, {}}, after_one);
  if (depth > 0)
    for (std::size_t k = begin + 1; k <= end; ++k) {
      const std::vector<nodes> rests = all_schedules(k, end, options, depth);
      for (const nodes& inner : all_schedules(begin, k, options, depth - 1)) add({begin, k - 1, 0, inner}, rests);
    }
  return result;
}

/// Sizes and times are small whole numbers, so that sums are exact and ties happen.
stage_chain random_chain(std::size_t stages, std::size_t options, unsigned seed) {
  std::mt19937 random(seed);
  const unsigned largest = seed % 3 == 0 ? 4 : 30;
  const auto size = [&] { return static_cast<std::size_t>(random() % (largest + 1)); };
  const auto time = [&] { return static_cast<double>(random() % 10); };
  stage_chain chain;
  for (std::size_t s = 0; s < stages; ++s) {
    chain_stage stage;
    stage.input = size();
    stage.forward_time = 1 + time();
    stage.backward_time = time();
    stage.forward_temporaries = (seed % 4) * size();
    stage.gradients = seed % 2 == 0 ? 0 : size();
    for (std::size_t o = 0; o < options; ++o) {
      chain_option option;
      option.kept = o == 0 ? 2 * size() : size();
      option.extra_time = o == 0 ? 0 : time();
      option.forward_temporaries = size();
      option.backward_temporaries = size();
      stage.options.push_back(option);
    }
    chain.stages.push_back(stage);
  }
  chain.output = seed % 7 == 0 ? size() : 0;
  return chain;
}

/// A row of equal blocks between an embedding and a head, as in a language model.
stage_chain blocks(std::size_t count) {
  stage_chain chain;
  chain.stages.push_back({1, 0.1, 0.1, 0, 0, {{0, 0, 0, 100}}});
  for (std::size_t i = 0; i < count; ++i)
    chain.stages.push_back({100, 10, 20, 800, 0, {{1600, 0, 50, 900}, {900, 2, 400, 1200}, {0, 10, 800, 2000}}});
  chain.stages.push_back({100, 5, 10, 1000, 0, {{1000, 0, 0, 500}}});
  chain.output = 1;
  return chain;
}

}  // namespace

TEST_CASE(
    "the planner finds the optimum of an exhaustive search at every budget, and no schedule where there is none") {
  for (std::size_t stages = 1; stages <= 4; ++stages)
    for (std::size_t options = 1; options <= 3; ++options)
      for (std::size_t depth = 0; depth <= 2; ++depth) {
        const std::vector<nodes> all = all_schedules(0, stages, options, depth);
        const unsigned chains = all.size() > 5000 ? 10 : all.size() > 500 ? 60 : 200;
        for (unsigned seed = 0; seed < chains; ++seed) {
          const stage_chain chain = random_chain(stages, options, 100 * seed + static_cast<unsigned>(stages + depth));
          std::map<std::size_t, double> fastest;  // by exact peak
          for (const nodes& n : all) {
            const schedule_cost cost = simulate(chain, {n, {}});
            const auto at = fastest.emplace(cost.peak, cost.time).first;
            at->second = std::min(at->second, cost.time);
          }
          const chain_planner planner(chain, depth, 1000000);
          CAPTURE(stages);
          CAPTURE(options);
          CAPTURE(depth);
          CAPTURE(seed);
          REQUIRE(planner.least_budget() == fastest.begin()->first);
          if (const std::size_t least = planner.least_budget(); least > 0)
            REQUIRE_THROWS_AS(static_cast<void>(planner.fastest(least - 1)), error);
          double best = std::numeric_limits<double>::infinity();
          // Between two peaks of the search nothing can change, so these are all budgets.
          for (const auto& [peak, time] : fastest) {
            best = std::min(best, time);
            const chain_schedule found = planner.fastest(peak);
            const schedule_cost cost = simulate(chain, found);
            REQUIRE(found.predicted.time == best);
            REQUIRE(cost.time == best);
            REQUIRE(cost.peak == found.predicted.peak);
            REQUIRE(cost.peak <= peak);
          }
        }
      }
}

TEST_CASE("thinned fronts stay feasible, keep the least budget and lose little time") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const stage_chain chain = random_chain(12, 3, seed);
    const chain_planner exact(chain, 1, 1000000), thinned(chain, 1, 60);
    CAPTURE(seed);
    REQUIRE(thinned.least_budget() == exact.least_budget());
    REQUIRE(thinned.trade_off().size() <= 60);
    for (const schedule_cost& c : exact.trade_off()) {
      const chain_schedule found = thinned.fastest(c.peak);
      const schedule_cost cost = simulate(chain, found);
      REQUIRE(cost.peak == found.predicted.peak);
      REQUIRE(cost.peak <= c.peak);
      REQUIRE(found.predicted.time >= c.time);
      REQUIRE(found.predicted.time <= 1.1 * c.time);
    }
  }
}

TEST_CASE("deeper nesting never costs time, and fits where shallower nesting does not") {
  const stage_chain chain = blocks(24);
  const chain_planner options_only(chain, 0), shallow(chain, 1), deep(chain, 2);
  CHECK(shallow.least_budget() < options_only.least_budget());
  CHECK(deep.least_budget() < shallow.least_budget());
  for (const schedule_cost& c : shallow.trade_off()) CHECK(deep.fastest(c.peak).predicted.time <= c.time);
  for (const schedule_cost& c : options_only.trade_off()) CHECK(shallow.fastest(c.peak).predicted.time <= c.time);
}

TEST_CASE("every point of the trade-off is what its schedule takes") {
  const stage_chain chain = blocks(12);
  const chain_planner planner(chain, 2);
  const std::vector<schedule_cost> curve = planner.trade_off();
  REQUIRE(curve.size() > 10);
  CHECK(curve.back().time == doctest::Approx(chain.time()));
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const schedule_cost cost = simulate(chain, planner.fastest(curve[i].peak));
    CHECK(cost.peak == curve[i].peak);
    CHECK(cost.time == doctest::Approx(curve[i].time));
    if (i > 0) {
      CHECK(curve[i - 1].peak < curve[i].peak);
      CHECK(curve[i - 1].time > curve[i].time);
    }
  }
}

TEST_CASE("a budget that nothing fits in is refused with the least that is feasible") {
  stage_chain chain;
  chain.stages.push_back({100, 1, 1, 0, 0, {{1000, 0, 0, 948}}});
  const chain_planner planner(chain);
  CHECK(planner.least_budget() == 2048);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(planner.fastest(2047)),
      "memory budget: no schedule fits in 2047 bytes (2.00 KiB); the least that is feasible is 2048 bytes "
      "(2.00 KiB)",
      error);
  CHECK(planner.fastest(2048).predicted.peak == 2048);
}

TEST_CASE("a chain without stages or a stage without options is refused") {
  CHECK_THROWS_WITH_AS(chain_planner(stage_chain{}), "chain planner: a chain without stages", error);
  stage_chain chain = blocks(1);
  chain.stages[1].options.clear();
  CHECK_THROWS_WITH_AS(chain_planner{chain}, "chain planner: stage 1 has no option; give it one that keeps all", error);
}

TEST_CASE("nodes that do not cover a chain in order are no schedule of it") {
  const stage_chain chain = blocks(2);
  const schedule_node one{0, 0, 0}, two{1, 1, 0}, three{2, 2, 0}, four{3, 3, 0};
  CHECK_NOTHROW(static_cast<void>(simulate(chain, {{one, two, three, four}, {}})));
  const std::string message = "chain schedule: its nodes do not cover the stages of the chain in order";
  for (const nodes& n :
       {nodes{one, two, three}, nodes{one, three, two, four}, nodes{one, two, two, four}, nodes{one, {1, 2, 0}, four},
        nodes{one, {1, 2, 0, {two}}, four}, nodes{one, two, three, four, {4, 4, 0}}, nodes{}})
    CHECK_THROWS_WITH_AS(static_cast<void>(simulate(chain, {n, {}})), message.c_str(), error);
}
