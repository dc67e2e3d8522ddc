// Choices of what a block keeps, and schedules of blocks that hold regions of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <gradus/planning.hpp>
#include <limits>
#include <map>
#include <random>
#include <string>
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
    block.graph.producers.push_back(static_cast<unsigned>(i));
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
  gr::context<D>& transient;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr row_of_blocks(gr::context<D>& persistent, gr::context<D>& to, const options& o)
      : transient(to), tape(to), regions(o.regions) {
    gr::init(blocks, persistent, gr::xavier_normal{.seed = 1});
  }
  // Forward, backward; `body` is what a block does.
  template <class Input, class Body>
  constexpr void step(const Body& body) {
    auto x = gr::full<float, Input>(transient, 0.5f, gr::category::input);
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

// Three blocks of four operations, and two of seven.
template <class D>
struct three_small : row_of_blocks<D, gr::nn::mlp<gr::on<D>, 24>, 3> {
  using three_small::row_of_blocks::row_of_blocks;
  constexpr void step() {
    three_small::row_of_blocks::template step<gr::shape<96, 24>>(
        [](const auto& block, auto v) { return v + block(v); });
  }
};
template <class D>
struct two_large : row_of_blocks<D, gr::nn::mlp<gr::on<D>, 16>, 2> {
  using two_large::row_of_blocks::row_of_blocks;
  constexpr void step() {
    two_large::row_of_blocks::template step<gr::shape<256, 16>>(
        [](const auto& block, auto v) { return gr::tanh(gr::exp(gr::tanh(v + block(v)))); });
  }
};

// Two blocks of random operations on values drawn from those before them.
struct drawn_operation {
  int what;
  std::size_t a, b;
};
std::vector<drawn_operation> drawn;
template <class D>
struct drawn_block : row_of_blocks<D, gr::nn::linear<gr::on<D>, 32, 32>, 2> {
  using drawn_block::row_of_blocks::row_of_blocks;
  void step() {
    drawn_block::row_of_blocks::template step<gr::shape<64, 32>>([](const auto& block, auto v) {
      std::vector values{std::move(v)};
      for (const auto& [what, a, b] : drawn)
        values.push_back(what == 0   ? gr::tanh(values[a])
                         : what == 1 ? gr::gelu(values[a])
                         : what == 2 ? gr::exp(values[a])
                         : what == 3 ? values[a] + values[b]
                         : what == 4 ? values[a] * values[b]
                         : what == 5 ? gr::softmax(values[a])
                                     : block(values[a]));
      return values.back();
    });
  }
};

// What a step takes under some schedule: only what runs, and what make_plan() makes of it, is asked.
struct outcome {
  std::vector<gr::chain_part> parts;
  std::size_t live_peak;
  double seconds;
};
template <class Model>
outcome run(const std::vector<gr::chain_part>& parts, const gr::time_table& table) {
  options o;
  o.regions.parts = parts;
  const gr::step_trace trace = gr::trace_step<Model>(o);
  return {parts, gr::summarize(trace).peak_bytes, table.seconds(trace)};
}
template <class Model>
std::size_t placed_bytes(const std::vector<gr::chain_part>& parts) {
  options o;
  o.regions.parts = parts;
  const gr::step_trace trace = gr::trace_step<Model>(o);
  return trace.live_before + gr::make_plan(trace).bytes;
}

// All ways to run `blocks` blocks, each of which has the given ways to be run alone: one after another, or some of them
// within a region of their own.
std::vector<std::vector<gr::chain_part>> all_schedules(std::size_t blocks, const std::vector<gr::chain_part>& alone) {
  std::vector<std::vector<gr::chain_part>> rows{{}};
  for (std::size_t b = 0; b < blocks; ++b) {
    std::vector<std::vector<gr::chain_part>> longer;
    for (const auto& row : rows)
      for (gr::chain_part part : alone) {
        part.first = part.last = b;
        longer.push_back(row);
        longer.back().push_back(part);
      }
    rows = std::move(longer);
  }
  std::vector<std::vector<gr::chain_part>> all;
  for (const auto& row : rows) {
    all.push_back(row);
    for (std::size_t first = 0; first < blocks; ++first)
      for (std::size_t last = first + 1; last < blocks; ++last) {
        gr::chain_part region{first, last, true};
        const auto at = [&](std::size_t i) { return row.begin() + static_cast<std::ptrdiff_t>(i); };
        region.inner.assign(at(first), at(last + 1));
        std::vector<gr::chain_part> parts(row.begin(), at(first));
        parts.push_back(region);
        parts.insert(parts.end(), at(last + 1), row.end());
        all.push_back(parts);
      }
  }
  return all;
}

// Every subset of the operations that a block may keep, and the block without a region.
std::vector<gr::chain_part> every_subset(std::size_t operations) {
  std::vector<gr::chain_part> alone{{0, 0, false}};
  for (std::uint64_t keep = 0; keep < std::uint64_t{1} << operations; ++keep) alone.push_back({0, 0, true, keep});
  return alone;
}

// Those of them that no other beats, as seen from steps that differ in the first of two blocks alone: in the bytes that
// are there when backward begins, and in time.
template <class Model>
std::vector<gr::chain_part> unbeaten(const std::vector<gr::chain_part>& all, const gr::time_table& table) {
  std::map<std::size_t, std::pair<double, gr::chain_part>> by_bytes;
  for (const gr::chain_part& part : all) {
    options o;
    o.regions.parts = {part, {1, 1, false}};
    const gr::step_trace trace = gr::trace_step<Model>(o);
    const auto backward = std::find_if(trace.ops.begin(), trace.ops.end(),
                                       [](const gr::op_span& op) { return op.what.phase == gr::phase::backward; });
    std::size_t live = 0;
    for (std::size_t e = 0; e < backward->first_event; ++e) {
      const std::size_t bytes = trace.blocks[trace.events[e].block].bytes;
      live = trace.events[e].begins ? live + bytes : live - bytes;
    }
    const double seconds = table.seconds(trace);
    const auto at = by_bytes.emplace(live, std::pair{seconds, part}).first;
    if (seconds < at->second.first) at->second = {seconds, part};
  }
  std::vector<gr::chain_part> best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [bytes, found] : by_bytes)
    if (found.first < least) {
      least = found.first;
      best.push_back(found.second);
    }
  return best;
}

// Holds the scheduler against a search through all the given schedules, at `budgets` budgets: a step takes at most
// `slower` times what the fastest takes, and the least budget is at most `wider` times the least of them.
template <class Model>
void check_optimal(const std::vector<std::vector<gr::chain_part>>& schedules, const gr::time_table& table,
                   std::size_t budgets, double slower = 1 + 1e-9, double wider = 1) {
  std::vector<outcome> all;
  for (const auto& parts : schedules) all.push_back(run<Model>(parts, table));
  std::vector<std::size_t> placed(all.size(), 0);  // where it was asked for
  const auto bytes_of = [&](std::size_t i) {
    if (placed[i] == 0) placed[i] = placed_bytes<Model>(all[i].parts);
    return placed[i];
  };
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.live_peak < b.live_peak; });
  std::size_t least = bytes_of(0), most = all.front().live_peak;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].live_peak < least) least = std::min(least, bytes_of(i));
    most = std::max(most, all[i].live_peak);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::fill(placed.begin(), placed.end(), 0);

  const gr::recompute_scheduler<Model, options> search(options{}, table);
  CHECK(search.least_budget() >= least);
  CHECK(static_cast<double>(search.least_budget()) <= wider * static_cast<double>(least));
  least = search.least_budget();
  CHECK_FALSE(search.find_within(least - 1));
  double before = std::numeric_limits<double>::infinity();
  for (std::size_t n = 0; n <= budgets; ++n) {
    const std::size_t budget = least + (most - least) * n / budgets;
    CAPTURE(budget);
    const gr::scheduled_step found = search.within(budget);
    CHECK(placed_bytes<Model>(found.regions.parts) <= budget);
    std::size_t best = 0;
    while (all[best].live_peak > budget || bytes_of(best) > budget) ++best;
    CHECK(found.seconds <= all[best].seconds * slower);
    CHECK(found.seconds == run<Model>(found.regions.parts, table).seconds);
    CHECK(found.seconds <= before);
    before = found.seconds;
  }
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

  const gr::recompute_scheduler<nested<gr::meta>, options> search(options{});
  const auto& front = search.worth_having();
  CHECK(front.size() > 1);
  for (const gr::scheduled_step& s : front)
    CHECK(s.summary.peak_bytes == gr::summarize_step<nested<gr::meta>>(options{s.regions}).peak_bytes);
  CHECK(search.within(search.least_budget()).summary.peak_bytes <= search.least_budget());
}

TEST_CASE("a schedule is described in a line for each row of blocks that keep the same") {
  const std::vector<gr::block_facts> blocks(8, row_of(3));
  const std::vector<gr::chain_part> parts{{0, 0, true, 0}, {1, 1, true, 0}, {2, 2, true, 0b101},
                                          {3, 3, true, 0}, {4, 4, false},   {5, 6, true, 0, {{5, 6, false}}},
                                          {7, 7, false, 0}};
  std::string text;
  gr::detail::describe_parts(parts, blocks, "", text);
  CHECK(text ==
        "blocks 0 to 1: keep nothing\n"
        "block 2: keep op (0), op (2)\n"
        "block 3: keep nothing\n"
        "block 4: keep all\n"
        "blocks 5 to 6: keep the input, run again in backward\n"
        "  blocks 5 to 6: keep all\n"
        "block 7: keep all\n");
}

TEST_CASE("the least budget is the least there is, and within any budget a schedule is the fastest that fits") {
  const gr::time_table table(200e9, 20e9);
  check_optimal<three_small<gr::meta>>(all_schedules(3, every_subset(4)), table, 40);
  check_optimal<two_large<gr::meta>>(all_schedules(2, every_subset(7)), table, 8);
}

TEST_CASE("of random blocks, too: at any budget within 2 % of the fastest, and never slower than at a smaller one") {
  std::mt19937_64 random(45);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (int graph = 0; graph < 24; ++graph) {
    CAPTURE(graph);
    const std::size_t operations = 2 + below(3);
    drawn.clear();
    for (std::size_t k = 0; k < operations; ++k)
      drawn.push_back({static_cast<int>(below(7)), k - below(std::min<std::size_t>(k, 2) + 1), below(k + 1)});
    gr::time_table table(1e9, 1e8);
    gr::step_trace times = gr::trace_step<drawn_block<gr::meta>>(options{});
    double now = 0;
    for (gr::op_span& op : times.ops) {
      op.begin_us = now;
      op.end_us = now += static_cast<double>(1 + below(1000));
    }
    table.add(times);
    const std::size_t found = gr::survey_blocks<drawn_block<gr::meta>>(options{})[0].operations.size();
    check_optimal<drawn_block<gr::meta>>(all_schedules(2, every_subset(found)), table, 10, 1.02, 1.02);
  }
}

TEST_CASE("the same holds for two blocks of a transformer, where each keeps what no other choice beats") {
  const gr::time_table table(200e9, 20e9);
  const auto alone = unbeaten<transformer<gr::meta>>(every_subset(10), table);
  REQUIRE(alone.size() > 12);
  check_optimal<transformer<gr::meta>>(all_schedules(2, alone), table, 60);
}

TEST_CASE("blocks that apply the same have the same choices, and others have their own") {
  std::vector<gr::block_facts> blocks{row_of(3), row_of(4), row_of(3)};
  blocks.push_back(row_of(3));
  blocks.back().graph.operations[1].own_result = false;  // another dependence alone
  const auto choices = gr::detail::choices_of(blocks, gr::time_table{});
  REQUIRE(choices.size() == 4);
  const auto same = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.keep == y.keep && x.region == y.region && x.bytes == y.bytes && x.time == y.time &&
             x.computed == y.computed;
    });
  };
  for (std::size_t b = 0; b < 4; ++b) CHECK(same(choices[b], gr::detail::choices_of(blocks[b], gr::time_table{})));
  CHECK(same(choices[0], choices[2]));
  CHECK_FALSE(same(choices[0], choices[1]));
  CHECK_FALSE(same(choices[0], choices[3]));
}
