// Choices of what a block keeps, and schedules of blocks that hold regions of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {

// A row of operations, each of which needs its own result.
gr::block_facts row_of(std::size_t operations) {
  gr::block_facts block;
  for (std::size_t i = 0; i < operations; ++i) {
    block.operations.push_back({"op", "op", {1000 + i, 0, 0}, 10 + i});
    block.graph.operations.push_back({i, 0, true, false, false});
    block.graph.makers.push_back(static_cast<unsigned>(i));
  }
  return block;
}

struct options {
  gr::region_schedule regions = {};
};

// A model of blocks, and what a step needs besides.
template <class D, class Block, std::size_t Blocks>
struct row_of_blocks {
  std::array<Block, Blocks> blocks;
  gr::context<D>& passing;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr row_of_blocks(gr::context<D>& resting, gr::context<D>& to, const options& o)
      : passing(to), tape(to), regions(o.regions) {
    gr::init(blocks, resting, gr::xavier_normal{.seed = 1});
  }
  // Forward, backward; `body` is what a block does.
  template <class Input, class Body>
  constexpr void step(const Body& body) {
    auto x = gr::full<float, Input>(passing, 0.5f, gr::category::input);
    const auto y = gr::chain(blocks, tape.watch(std::move(x)), regions, body);
    gr::backward(gr::mean(y * y));
    gr::clear_gradients(blocks);
  }
};

// Blocks with a region of their own within.
template <class D>
struct nested : row_of_blocks<D, gr::nn::mlp<gr::on<D>, 16>, 3> {
  using nested::row_of_blocks::row_of_blocks;
  constexpr void step() {
    nested::row_of_blocks::template step<gr::shape<512, 16>>([](const auto& block, auto v) {
      auto inner = gr::checkpoint([&block](auto u) { return block(std::move(u)); }, v);
      return gr::tanh(gr::exp(gr::tanh(gr::exp(gr::tanh(v + std::move(inner))))));
    });
  }
};

// Two blocks of a GPT.
template <class D>
struct transformer : row_of_blocks<D, gr::nn::block<gr::on<D>, 128, 4, 2>, 2> {
  using transformer::row_of_blocks::row_of_blocks;
  constexpr void step() {
    transformer::row_of_blocks::template step<gr::shape<16, 64, 128>>(
        [](const auto& block, auto v) { return block(std::move(v), 0.0); });
  }
};

// Everything that a block may keep, but what another choice beats in bytes and time. The last keeps all, with no region.
std::vector<gr::chain_part> parts_worth_trying(const gr::block_facts& block, const gr::time_table& table) {
  std::vector<double> times;
  for (const auto& op : block.operations)
    times.push_back(table.seconds(gr::activity{op.name, gr::phase::forward, op.work}));
  std::map<std::size_t, gr::detail::block_choice> by_bytes;
  for (std::uint64_t keep = 0; keep < std::uint64_t{1} << block.operations.size(); ++keep) {
    const auto c = gr::detail::choice_of(block, keep, times);
    const auto [at, fresh] = by_bytes.emplace(c.bytes, c);
    if (!fresh && c.time < at->second.time) at->second = c;
  }
  std::vector<gr::chain_part> parts;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [bytes, c] : by_bytes)
    if (c.time < least) {
      least = c.time;
      parts.push_back({0, 0, true, c.keep});
    }
  parts.push_back({0, 0, false});
  return parts;
}

}  // namespace

TEST_CASE("operations from the 64th on are computed again, and leave the choice of the others alone") {
  const gr::block_facts block = row_of(70);
  const gr::detail::block_choice c = gr::detail::choice_of(block, ~std::uint64_t{0}, std::vector<double>(70, 1.0));
  CHECK(c.keep == ~std::uint64_t{0});
  CHECK(c.time == 6);
}

TEST_CASE("a policy that keeps operations from the 64th on keeps none of them, and no other instead") {
  const std::vector<gr::block_facts> blocks{row_of(70)};
  const auto late = gr::save_if([](const gr::region_op& op) { return op.number >= 63; });
  CHECK(gr::every_block(blocks, late).parts[0].keep == std::uint64_t{1} << 63);
}

TEST_CASE("keeping all is a choice for blocks of any number of operations") {
  for (const std::size_t operations : {3u, 17u, 70u}) {
    const gr::block_facts block = row_of(operations);
    std::size_t bytes = 0;
    for (const auto& op : block.operations) bytes += op.bytes;
    const auto choices = gr::detail::choices_of(block, gr::time_table{});
    CHECK(choices.size() > 1);
    CHECK_FALSE(choices.back().region);
    CHECK(choices.back().time == 0);
    CHECK(choices.back().bytes == bytes);
    CHECK(choices.front().region);
  }
}

TEST_CASE("a block with a region within is scheduled: the region is an operation that cannot be kept") {
  const auto blocks = gr::survey_blocks<nested<gr::meta>>(options{});
  REQUIRE(blocks.size() == 3);
  for (const gr::block_facts& b : blocks) {
    REQUIRE(b.operations.size() == 7);
    CHECK(b.graph.size() == 7);
    CHECK(b.operations[0].name == "checkpoint");
    CHECK(b.operations[0].bytes == 0);
    CHECK(b.operations[6].name == "tanh");
  }
  CHECK(gr::every_block(blocks, gr::save_listed{{"tanh"}}).parts[1].keep == 0b1010100);

  const gr::scheduler<nested<gr::meta>, options> search(options{});
  const auto& front = search.worth_having();
  CHECK(front.size() > 1);
  for (const gr::scheduled_step& s : front)
    CHECK(s.plan.peak_bytes == gr::plan<nested<gr::meta>>(options{s.regions}).peak_bytes);
  CHECK(search.within(front.front().plan.peak_bytes).plan.peak_bytes == front.front().plan.peak_bytes);
}

TEST_CASE("at every budget there is the fastest of all schedules of a transformer's two blocks") {
  const gr::time_table table(200e9, 20e9);
  const auto blocks = gr::survey_blocks<transformer<gr::meta>>(options{});
  REQUIRE(blocks.size() == 2);
  const auto parts = parts_worth_trying(blocks[0], table);
  REQUIRE(parts.size() > 12);
  std::map<std::size_t, double> fastest;  // by peak
  for (gr::chain_part first : parts)
    for (gr::chain_part second : parts) {
      second.first = second.last = 1;
      options o;
      o.regions.parts = {first, second};
      const gr::step_trace trace = gr::trace_step<transformer<gr::meta>>(o);
      const double seconds = table.seconds(trace);
      const auto [at, fresh] = fastest.emplace(gr::summarize(trace).peak_bytes, seconds);
      if (!fresh) at->second = std::min(at->second, seconds);
    }
  const gr::scheduler<transformer<gr::meta>, options> search(options{}, table);
  CHECK(search.worth_having().front().plan.peak_bytes <= fastest.begin()->first);
  double best = std::numeric_limits<double>::infinity();
  for (const auto& [peak, seconds] : fastest) {
    const std::size_t budget = peak;
    best = std::min(best, seconds);
    CAPTURE(budget);
    const gr::scheduled_step found = search.within(budget);
    CHECK(found.plan.peak_bytes <= budget);
    CHECK(found.seconds <= best * (1 + 1e-9));
  }
}
