// Choices of what a block keeps, and schedules of blocks that hold regions of their own.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <gradus/gradus.hpp>
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

// Blocks with a region of their own within.
template <class D>
struct nested {
  std::array<gr::nn::mlp<gr::on<D>, 16>, 3> blocks;
  gr::context<D>& passing;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr nested(gr::context<D>& resting, gr::context<D>& to, const options& o)
      : passing(to), tape(to), regions(o.regions) {
    gr::init(blocks, resting, gr::xavier_normal{.seed = 1});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<512, 16>>(passing, 0.5f, gr::category::input);
    const auto y = gr::chain(blocks, tape.watch(std::move(x)), regions, [](const auto& block, auto v) {
      auto inner = gr::checkpoint([&block](auto u) { return block(std::move(u)); }, v);
      return gr::tanh(gr::exp(gr::tanh(gr::exp(gr::tanh(v + std::move(inner))))));
    });
    gr::backward(gr::mean(y * y));
    gr::clear_gradients(blocks);
  }
};

}  // namespace

TEST_CASE("operations from the 64th on are computed again, and leave the choice of the others alone") {
  const gr::block_facts block = row_of(70);
  const gr::detail::block_choice c = gr::detail::choice_of(block, ~std::uint64_t{0}, std::vector<double>(70, 1.0));
  CHECK(c.keep == ~std::uint64_t{0});
  CHECK(c.time == 6);
}

TEST_CASE("keeping all is a choice for blocks of any number of operations") {
  for (const std::size_t operations : {3u, 17u, 70u}) {
    const gr::block_facts block = row_of(operations);
    std::size_t bytes = 0;
    for (const auto& op : block.operations) bytes += op.bytes;
    const auto choices = gr::detail::choices_of(block, gr::time_table{}, 12);
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
