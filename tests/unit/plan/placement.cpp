#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../../support/placements.hpp"

using namespace gradus;
using namespace gradus_test;

namespace {

/// Writes a trace event by event.
struct step {
  step_trace trace;
  std::size_t begin(std::size_t bytes, category what = category::activation, std::string_view source = "op") {
    block_life b;
    b.bytes = bytes;
    b.what = what;
    b.source = source;
    b.from = trace.events.size();
    b.until = SIZE_MAX;
    trace.blocks.push_back(b);
    trace.events.push_back({trace.blocks.size() - 1, true});
    return trace.blocks.size() - 1;
  }
  void end(std::size_t block) {
    trace.blocks[block].until = trace.events.size();
    trace.events.push_back({block, false});
  }
};

/// Largest sum of live bytes, each block rounded up: the plain way, and what no placement can beat.
std::size_t rounded_peak(const step_trace& trace) {
  std::size_t live = 0, peak = 0;
  for (const memory_event& e : trace.events) {
    const std::size_t bytes = (trace.blocks[e.block].bytes + 63) / 64 * 64;
    live = e.begins ? live + bytes : live - bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

/// Any two blocks of which the plain definition says that they overlap.
bool some_overlap(const step_trace& trace, const placement& where) {
  for (std::size_t i = 0; i < trace.blocks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const block_life &a = trace.blocks[i], &b = trace.blocks[j];
      const bool in_time = a.from < b.until && b.from < a.until;
      const bool in_space =
          where.offsets[i] < where.offsets[j] + b.bytes && where.offsets[j] < where.offsets[i] + a.bytes;
      if (in_time && in_space && a.bytes > 0 && b.bytes > 0) return true;
    }
  return false;
}

step_trace random_lives(std::size_t blocks, std::size_t about_live, unsigned seed) {
  std::mt19937 random(seed);
  step s;
  std::vector<std::size_t> live;
  for (std::size_t made = 0; made < blocks || !live.empty();) {
    if (made < blocks && (live.empty() || random() % (2 * about_live) >= live.size())) {
      const std::size_t sizes[] = {0, random() % 100, random() % 10000, 64 * (random() % 1000), random() % 1000000};
      live.push_back(s.begin(sizes[random() % 5]));
      ++made;
    } else {
      const std::size_t k = random() % live.size();
      s.end(live[k]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }
  return s.trace;
}

/// What training looks like: forward keeps blocks of several sizes in each layer, backward ends them in reverse, with
/// temporaries in between, and leaves gradients that live until the end. With `recompute`, layers keep only their
/// input.
step_trace training(std::size_t layers, std::size_t rows, std::size_t width, std::size_t vocabulary, bool recompute) {
  step s;
  const std::size_t unit = 4 * rows * width;
  std::vector<std::vector<std::size_t>> kept(layers);
  std::vector<std::size_t> gradients;
  const auto keep_all = [&](std::vector<std::size_t>& into) {
    for (const std::size_t bytes : {unit, 4 * rows, 4 * rows, 3 * unit, unit, 12 * rows})
      into.push_back(s.begin(bytes));
    const std::size_t scratch = s.begin(12345 + width);
    for (const std::size_t bytes : {unit / 4, unit, 4 * unit, 4 * unit, unit / 4}) into.push_back(s.begin(bytes));
    s.end(scratch);
  };
  std::size_t x = s.begin(unit);
  for (auto& layer : kept) {
    layer.push_back(x);
    keep_all(layer);
    x = s.begin(unit);
    if (!recompute) continue;
    for (; layer.size() > 1; layer.pop_back()) s.end(layer.back());
  }
  const std::size_t logits = s.begin(4 * rows * vocabulary);
  std::size_t flowing = s.begin(unit);
  gradients.push_back(s.begin(4 * width * vocabulary));
  s.end(logits);
  s.end(x);
  for (std::size_t l = layers; l-- > 0;) {
    if (recompute) keep_all(kept[l]);
    for (std::size_t i = 1; i <= 4; ++i) {
      const std::size_t wide = s.begin(i * unit);
      gradients.push_back(s.begin(4 * width * width * i));
      gradients.push_back(s.begin(4 * width));
      for (std::size_t k = 0; k < 2; ++k, kept[l].pop_back()) s.end(kept[l].back());
      const std::size_t next = s.begin(unit);
      s.end(wide);
      s.end(flowing);
      flowing = next;
    }
    for (; !kept[l].empty(); kept[l].pop_back()) s.end(kept[l].back());
  }
  s.end(flowing);
  for (const std::size_t g : gradients) s.end(g);
  return s.trace;
}

}  // namespace

TEST_CASE("blocks that are alive at the same time never overlap, whatever their lives and sizes") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const step_trace trace = random_lives(1 + 3 * seed, 1 + seed % 13, seed);
    const placement where = place(trace);
    CAPTURE(seed);
    CHECK(is_valid(trace, where));
    CHECK_FALSE(some_overlap(trace, where));
    CHECK(where.bytes >= live_peak(trace));
    CHECK(where.bytes >= rounded_peak(trace));
    CHECK(where.bytes <= rounded_peak(trace) + rounded_peak(trace) / 4);
  }
}

TEST_CASE("nested lives are placed as a stack: in exactly their rounded peak") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    step s;
    std::vector<std::size_t> stack;
    for (int i = 0; i < 300 || !stack.empty(); ++i)
      if (i < 300 && (stack.empty() || random() % 2 == 0)) {
        stack.push_back(s.begin(1 + random() % 5000));
      } else {
        s.end(stack.back());
        stack.pop_back();
      }
    const placement where = place(s.trace);
    CHECK(is_valid(s.trace, where));
    CHECK(where.bytes == rounded_peak(s.trace));
  }
}

TEST_CASE("training steps are placed within two percent of their largest sum of live bytes") {
  struct model {
    std::size_t layers, rows, width, vocabulary;
  };
  const model models[] = {
      {6, 768, 96, 256}, {4, 128, 64, 5030}, {12, 16, 192, 5025}, {12, 77, 129, 999}, {100, 31, 65, 1001}};
  for (const bool recompute : {false, true})
    for (const model& m : models) {
      const step_trace trace = training(m.layers, m.rows, m.width, m.vocabulary, recompute);
      const placement where = place(trace);
      CAPTURE(m.layers);
      CAPTURE(recompute);
      CAPTURE(static_cast<double>(where.bytes) / static_cast<double>(live_peak(trace)));
      CHECK(is_valid(trace, where));
      CHECK(where.bytes <= live_peak(trace) + live_peak(trace) / 50);
    }
}

// In time that grows with the square of the blocks this would take minutes.
TEST_CASE("a step of thousands of batches, half a million blocks, is placed in no more than one of three batches") {
  const auto batches = [](std::size_t count) {
    step s;
    std::vector<std::size_t> gradients;
    for (std::size_t batch = 0; batch < count; ++batch) {
      std::vector<std::size_t> kept;
      for (std::size_t i = 0; i < 40; ++i) {
        const std::size_t scratch = s.begin(3000 + 64 * i);
        kept.push_back(s.begin(1000 * (1 + i % 7)));
        s.end(scratch);
      }
      for (std::size_t i = 40; i-- > 0;) {
        const std::size_t flowing = s.begin(2000);
        if (batch == 0) gradients.push_back(s.begin(500 + 64 * i));
        s.end(kept[i]);
        s.end(flowing);
      }
    }
    for (const std::size_t g : gradients) s.end(g);
    return s.trace;
  };
  const step_trace trace = batches(4200);
  REQUIRE(trace.blocks.size() > 500'000);
  const placement where = place(trace);
  CHECK(is_valid(trace, where));
  CHECK(where.bytes <= place(batches(3)).bytes);
}

TEST_CASE("random lives are placed within one percent of their bound on average") {
  double excess = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const step_trace trace = random_lives(300, 30, seed);
    const auto bound = static_cast<double>(rounded_peak(trace));
    excess += static_cast<double>(place(trace).bytes) / bound - 1;
  }
  CHECK(excess / 10 < 0.01);
}

TEST_CASE("blocks of equal size need no more than their number at once") {
  step s;
  std::mt19937 random(5);
  std::vector<std::size_t> live;
  for (int i = 0; i < 400; ++i)
    if (live.size() < 2 || random() % 12 >= live.size()) {
      live.push_back(s.begin(1000));
    } else {
      std::swap(live[random() % live.size()], live.back());
      s.end(live.back());
      live.pop_back();
    }
  for (const std::size_t b : live) s.end(b);
  CHECK(place(s.trace).bytes == rounded_peak(s.trace));
}

TEST_CASE("an empty step, and blocks of zero bytes, take nothing") {
  CHECK(place(step_trace{}).bytes == 0);
  CHECK(is_valid(step_trace{}, place(step_trace{})));
  step s;
  const std::size_t none = s.begin(0), some = s.begin(1), also_none = s.begin(0);
  for (const std::size_t b : {none, some, also_none}) s.end(b);
  const placement where = place(s.trace);
  CHECK(where.offsets == std::vector<std::size_t>{0, 0, 0});
  CHECK(where.bytes == 64);
  CHECK(live_peak(s.trace) == 1);
}

TEST_CASE("a wrong placement is told from a right one") {
  step s;
  const std::size_t a = s.begin(100), b = s.begin(100);
  s.end(a);
  const std::size_t c = s.begin(128);
  s.end(b);
  s.end(c);
  CHECK(is_valid(s.trace, {{0, 128, 256}, 384}));
  CHECK_FALSE(is_valid(s.trace, {{0, 64, 256}, 384}));   // a and b overlap
  CHECK_FALSE(is_valid(s.trace, {{0, 128, 64}, 384}));   // c reaches into b
  CHECK_FALSE(is_valid(s.trace, {{0, 120, 256}, 384}));  // not aligned
  CHECK_FALSE(is_valid(s.trace, {{0, 128, 256}, 383}));  // past the region's end
  CHECK_FALSE(is_valid(s.trace, {{0, 128}, 384}));       // a block too few
  CHECK(is_valid(s.trace, {{0, 128, 256}, 1024}));
}

TEST_CASE("the same step is placed the same way every time") {
  const step_trace trace = random_lives(200, 20, 3);
  CHECK(place(trace).offsets == place(trace).offsets);
}

TEST_CASE("a plan has the requests of the step in order, without those for nothing") {
  step s;
  const std::size_t a = s.begin(100, category::activation, "linear"), none = s.begin(0),
                    b = s.begin(200, category::temporary, "gelu");
  s.end(none);
  s.end(a);
  s.end(b);
  const memory_plan plan = make_plan(s.trace);
  REQUIRE(plan.allocations.size() == 2);
  CHECK(plan.allocations[0].bytes == 100);
  CHECK(plan.allocations[0].source == "linear");
  CHECK(plan.allocations[1].bytes == 200);
  CHECK(plan.allocations[1].what == category::temporary);
  CHECK(plan.bytes == 128 + 256);
  REQUIRE(plan.events.size() == 4);
  const std::size_t expected[] = {0, 1, 0, 1};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(plan.events[i].allocation == expected[i]);
    CHECK(plan.events[i].begins == (i < 2));
  }
}

TEST_CASE("a block that outlives its step cannot be planned, and the message names it") {
  step s;
  s.end(s.begin(64));
  s.begin(4096, category::gradient, "matmul");
  std::string message;
  try {
    static_cast<void>(make_plan(s.trace));
  } catch (const error& e) { message = e.what(); }
  CHECK(message ==
        "memory plan: request 2 of the step, 4096 bytes (gradient of matmul), outlives the step; plan a steady step, "
        "which ends with what it began");
}
