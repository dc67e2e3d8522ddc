// Plans that keep results in host memory: their time, their choices, and when they beat recomputation.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <gradus/planning.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

gr::op_span span(std::string_view name, std::size_t bytes, std::size_t flops = 0) {
  return {{name, gr::phase::forward, {flops, bytes, bytes}}};
}

// A row of operations, each of which needs its own result, of 10 bytes, 11, 12, ...; each takes a second.
gr::block_facts row_of(std::size_t operations) {
  gr::block_facts block;
  for (std::size_t i = 0; i < operations; ++i) {
    block.operations.push_back({"op", "op", {100, 0, 0}, 10 + i});
    block.graph.operations.push_back({i, 0, true, false, false});
    block.graph.producers.push_back(static_cast<unsigned>(i));
  }
  return block;
}

struct options {
  gr::region_schedule regions = {};
};
template <class D>
struct four_blocks {
  std::array<gr::nn::mlp<gr::on<D>, 64>, 4> blocks;
  gr::context<D>& transient;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr four_blocks(gr::context<D>& persistent, gr::context<D>& to, const options& o)
      : transient(to), tape(to), regions(o.regions) {
    gr::init(blocks, persistent, gr::xavier_normal{.seed = 1});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<512, 64>>(transient, 0.5f, gr::category::input);
    const auto y =
        gr::chain(blocks, tape.watch(std::move(x)), regions, [](const auto& block, auto v) { return v + block(v); });
    gr::backward(gr::mean(y * y));
    gr::clear_gradients(blocks);
  }
};
using scheduler = gr::recompute_scheduler<four_blocks<gr::meta>, options>;

// At 100 GFLOP/s and without memory traffic a block's forward takes 0.34 ms, its results are 2.2 MB.
gr::time_table table(double link_bytes, bool overlaps = true) {
  return gr::time_table(100e9, 1e15, {link_bytes, overlaps});
}

bool offloads(const gr::region_schedule& regions) {
  for (const gr::chain_part& p : regions.parts)
    if (p.offload != 0) return true;
  return false;
}

}  // namespace

TEST_CASE("a copy takes time from a step only where the step waits for it, and copies share the link") {
  const auto seconds = [](const std::vector<gr::op_span>& ops, gr::host_link link) {
    gr::step_trace step;
    step.ops = ops;
    return gr::time_table(100, 1e9, link).seconds(step);
  };
  const auto out = span("offload", 30), back = span("fetch", 20), wait = span("copy wait", 0);
  const auto op = span("op", 0, 200);  // two seconds
  CHECK(seconds({out, op, wait}, {10}) == doctest::Approx(3));
  CHECK(seconds({out, op, op, wait}, {10}) == doctest::Approx(4));
  CHECK(seconds({out, op, op, wait, op}, {10}) == doctest::Approx(6));
  CHECK(seconds({out, back, op, wait, op}, {10}) == doctest::Approx(7));
  CHECK(seconds({out, op, wait, back, wait}, {10}) == doctest::Approx(5));
  CHECK(seconds({out, op, op, wait}, {10, false}) == doctest::Approx(7));
  CHECK(seconds({op, op}, {10}) == doctest::Approx(4));
}

TEST_CASE("copies wait for a link that does not overlap both ways, and otherwise for what compute does not hide") {
  // 40 bytes at 10 a second, beside 1 s of forward, and 2 s of backward and 0.5 s of recomputing on the way back.
  CHECK(gr::detail::exposed_seconds(40, 1, 0.5, {10, false}) == 8);
  CHECK(gr::detail::exposed_seconds(40, 1, 0.5, {10, true}) == 3 + 1.5);
  CHECK(gr::detail::exposed_seconds(20, 1, 0.5, {10, true}) == 1);
}

TEST_CASE("a block's choices with a link are those without one, and its kept results in host memory, largest first") {
  const gr::block_facts block = row_of(3);
  const gr::time_table slow(100, 1e9, {1e-3}), fast(100, 1e9, {1e9});
  const auto without = gr::detail::choices_of(block, gr::time_table(100, 1e9));
  for (const gr::time_table& t : {slow, fast}) {
    const auto with = gr::detail::choices_of(block, t);
    REQUIRE(with.size() > without.size());
    for (std::size_t i = 0; i < without.size(); ++i) {
      const auto& c = with[with.size() - without.size() + i];
      CHECK(c.keep == without[i].keep);
      CHECK(c.offload == 0);
      CHECK(c.region == without[i].region);
      CHECK(c.time == without[i].time);
    }
  }
  // All in host memory is free with a fast link: nothing is better.
  const auto free = gr::detail::choices_of(block, fast);
  CHECK(free.size() == without.size() + 1);
  CHECK(free.front().keep == 0);
  CHECK(free.front().offload == 0b111);
  CHECK(free.front().bytes == 0);
  CHECK(free.front().moved == 33);
  CHECK(free.front().time == 0);
  // Copies at 10 bytes a second: 12 bytes take 1.2 s of the next block's forward, 3 s, and are hidden; 33 bytes are
  // not.
  const auto some = gr::detail::choices_of(block, gr::time_table(100, 1e9, {10}));
  CHECK(some.front().offload == 0b111);
  CHECK(some.front().time == doctest::Approx(0.3));
  CHECK(some[1].offload == 0b110);
  CHECK(some[1].keep == 0b001);
  CHECK(some[1].time == 0);
}

TEST_CASE("of a copy out and a copy back counts what the neighbours' computing does not hide, without overlap both") {
  using gr::detail::exposed_seconds;
  // 40 bytes at 10 a second: 4 s each way; forward takes 1 s, backward 2 s, recomputing 0.5 s.
  CHECK(exposed_seconds(40, 1, 0.5, {10, false}) == doctest::Approx(8));
  CHECK(exposed_seconds(40, 1, 0.5, {10, true}) == doctest::Approx(3 + 1.5));
  CHECK(exposed_seconds(40, 3, 0.5, {10, true}) == doctest::Approx(1));
  CHECK(exposed_seconds(40, 5, 0, {10, true}) == 0);
}

TEST_CASE("with a fast link a budget is met by offloading, in less time than by recomputing") {
  const scheduler without(options{}, table(0)), with(options{}, table(100e9));
  const std::size_t plain = without.worth_having().back().summary.peak_bytes;
  for (const std::size_t budget : {plain * 6 / 10, plain * 7 / 10, plain * 8 / 10}) {
    CAPTURE(budget);
    const gr::scheduled_step recomputed = without.within(budget), offloaded = with.within(budget);
    CHECK_FALSE(offloads(recomputed.regions));
    CHECK(recomputed.summary.host_bytes == 0);
    CHECK(offloads(offloaded.regions));
    CHECK(offloaded.summary.host_bytes > 0);
    CHECK(offloaded.summary.peak_bytes <= budget);
    CHECK(offloaded.seconds < recomputed.seconds);
    CHECK(offloaded.description.find("in host memory linear (0)") != std::string::npos);
  }
  // What fits anyway is kept.
  CHECK_FALSE(offloads(with.within(2 * plain).regions));
}

TEST_CASE("with a slow link the schedule is the one without a link") {
  for (const gr::time_table& slow : {table(1e6), table(0.2e9, false)}) {
    const scheduler without(options{}, table(0)), with(options{}, slow);
    const std::size_t plain = without.worth_having().back().summary.peak_bytes;
    for (const std::size_t budget : {plain * 7 / 10, plain * 8 / 10, plain * 2}) {
      CAPTURE(budget);
      const gr::scheduled_step recomputed = without.within(budget), found = with.within(budget);
      CHECK_FALSE(offloads(found.regions));
      CHECK(found.seconds == recomputed.seconds);
      CHECK(found.description == recomputed.description);
    }
  }
}

TEST_CASE("a link makes no budget slower, and every schedule is exact") {
  const scheduler without(options{}, table(0));
  const std::size_t plain = without.worth_having().back().summary.peak_bytes;
  for (const double link : {1e9, 8e9}) {
    const scheduler with(options{}, table(link));
    CHECK(with.least_budget() <= without.least_budget());
    for (std::size_t n = 0; n <= 4; ++n) {
      const std::size_t budget = without.least_budget() + (plain - without.least_budget()) * n / 4;
      CAPTURE(budget);
      const gr::scheduled_step found = with.within(budget);
      CHECK(found.seconds <= without.within(budget).seconds);
      CHECK(found.summary.peak_bytes == gr::summarize_step<four_blocks<gr::meta>>(options{found.regions}).peak_bytes);
    }
  }
}

TEST_CASE("a policy that offloads makes a schedule that offloads what it saves") {
  const auto blocks = gr::survey_blocks<four_blocks<gr::meta>>(options{});
  const auto s = gr::every_block(blocks, gr::offload{gr::save_listed{{"linear"}}});
  CHECK(s.parts[2].keep == 0);
  CHECK(s.parts[2].offload == 0b101);
  CHECK(gr::every_block(blocks, gr::save_only<gr::op::linear>{}).parts[2].keep == 0b101);
  std::string text;
  gr::detail::describe_parts(gr::region_schedule::every_block(4, 0b10, 0b101).parts, blocks, "", text);
  CHECK(text == "blocks 0 to 3: keep gelu (1); in host memory linear (0), linear (2)\n");
}
