#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/planned_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/plan/placement.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <initializer_list>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "dies.hpp"

using namespace gradus;

namespace {

struct ask {
  std::size_t bytes;
  category what;
  std::string_view source;
};
const ask large{8192, category::activation, "linear"};
const ask medium{4096, category::activation, "gelu"};
const ask small{100, category::temporary, "sum"};

memory_request request(const ask& a) {
  memory_request r;
  r.bytes = a.bytes;
  r.what = a.what;
  r.source = a.source;
  return r;
}

/// linear begins, gelu begins, gelu ends, sum begins, linear ends, sum ends.
memory_plan small_plan() {
  memory_plan plan;
  plan.allocations = {{large.bytes, large.what, large.source, 0},
                      {medium.bytes, medium.what, medium.source, 8192},
                      {small.bytes, small.what, small.source, 8192}};
  plan.events = {{0, true}, {1, true}, {1, false}, {2, true}, {0, false}, {2, false}};
  plan.bytes = 8192 + 4096;
  return plan;
}

struct bench {
  stream s;
  host_resource heap;
  testing::failing_resource faults{heap};
  stats_resource below{faults};
  planned_resource planned;
  explicit bench(memory_plan plan = small_plan()) : planned(std::move(plan), below, s) {}

  void* begin(const ask& a) { return planned.allocate(request(a), s); }
  void end(void* memory, const ask& a) { planned.deallocate(memory, request(a), s); }
  void whole_step() {
    void* a = begin(large);
    void* b = begin(medium);
    end(b, medium);
    void* c = begin(small);
    end(a, large);
    end(c, small);
  }
  /// What a request is refused with; empty if it is served.
  std::string refusal(const ask& a) {
    try {
      void* memory = begin(a);
      end(memory, a);
      return "";
    } catch (const error& e) { return e.what(); }
  }
  std::string checked() const {
    try {
      planned.check();
      return "";
    } catch (const error& e) { return e.what(); }
  }
};

}  // namespace

TEST_CASE("planned memory gives the n-th request of every step the same address, and asks below once") {
  bench b;
  CHECK(b.below.all().allocations == 1);
  CHECK(b.below.all().live == 12288);
  std::vector<void*> first;
  for (int step = 0; step < 5; ++step) {
    void* one = b.begin(large);
    void* two = b.begin(medium);
    CHECK(b.planned.live_blocks() == 2);
    b.end(two, medium);
    void* three = b.begin(small);
    b.end(one, large);
    b.end(three, small);
    CHECK(b.planned.live_blocks() == 0);
    const std::vector<void*> addresses{one, two, three};
    if (step == 0) first = addresses;
    CHECK(addresses == first);
    CHECK(static_cast<std::byte*>(two) - static_cast<std::byte*>(one) == 8192);
    b.planned.check();
  }
  CHECK(b.below.all().allocations == 1);
}

TEST_CASE("planned memory returns its region, also in the middle of a step") {
  stream s;
  host_resource heap;
  stats_resource below(heap);
  {
    planned_resource planned(small_plan(), below, s);
    planned.deallocate(planned.allocate(request(large), s), request(large), s);
  }
  CHECK(below.all().live == 0);
}

TEST_CASE("random steps replay with blocks that keep their contents while they live") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    step_trace trace;
    std::vector<std::size_t> live;
    for (int i = 0; i < 300 || !live.empty(); ++i) {
      const bool begins = i < 300 && random() % 3 != 0;
      if (begins) {
        block_life life;
        life.bytes = 1 + random() % 3000;
        life.what = static_cast<category>(random() % category_count);
        life.source = seed % 2 == 0 ? "even" : "odd";
        life.from = trace.events.size();
        live.push_back(trace.blocks.size());
        trace.events.push_back({trace.blocks.size(), true});
        trace.blocks.push_back(life);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        trace.blocks[live.back()].until = trace.events.size();
        trace.events.push_back({live.back(), false});
        live.pop_back();
      }
    }
    bench b(make_plan(trace));
    std::vector<unsigned char*> at(trace.blocks.size());
    const auto of = [&](std::size_t i) {
      const block_life& life = trace.blocks[i];
      return ask{life.bytes, life.what, life.source};
    };
    for (int step = 0; step < 3; ++step)
      for (const memory_event& e : trace.events) {
        const auto mark = static_cast<unsigned char>(e.block * 7 + 1);
        if (e.begins) {
          at[e.block] = static_cast<unsigned char*>(b.begin(of(e.block)));
          REQUIRE(reinterpret_cast<std::uintptr_t>(at[e.block]) % memory_request::alignment == 0);
          std::memset(at[e.block], mark, trace.blocks[e.block].bytes);
        } else {
          bool whole = true;
          for (std::size_t k = 0; k < trace.blocks[e.block].bytes; ++k) whole = whole && at[e.block][k] == mark;
          REQUIRE(whole);
          b.end(at[e.block], of(e.block));
        }
      }
    b.planned.check();
    CHECK(b.below.all().allocations == 1);
  }
}

TEST_CASE("a request of other bytes, category or source is refused, and the message has both") {
  const auto second = [](const ask& a) {
    bench b;
    void* one = b.begin(large);
    const std::string message = b.refusal(a);
    b.end(one, large);
    return message;
  };
  const std::string planned = "; the plan has 4096 bytes (activation of gelu) there: make the plan again for this step";
  CHECK(second({2048, category::activation, "gelu"}) ==
        "planned memory: request 2 of the step asks 2048 bytes (activation of gelu)" + planned);
  CHECK(second({4096, category::gradient, "gelu"}) ==
        "planned memory: request 2 of the step asks 4096 bytes (gradient of gelu)" + planned);
  CHECK(second({4096, category::activation, "relu"}) ==
        "planned memory: request 2 of the step asks 4096 bytes (activation of relu)" + planned);
  CHECK(second({4096, category::activation, ""}) ==
        "planned memory: request 2 of the step asks 4096 bytes (activation)" + planned);
}

TEST_CASE("a request where the plan has an end is refused") {
  bench b;
  void* one = b.begin(large);
  void* two = b.begin(medium);
  CHECK(b.refusal(small) ==
        "planned memory: request 3 of the step asks 100 bytes (temporary of sum); the plan has the end of request 2, "
        "4096 "
        "bytes (activation of gelu), there: make the plan again for this step");
  b.end(two, medium);
  b.end(one, large);
}

TEST_CASE("an end that is not the planned one is thrown by check and by the next request") {
  bench b;
  void* one = b.begin(large);
  void* two = b.begin(medium);
  CHECK(b.checked() == "");
  b.end(one, large);
  const std::string message =
      "planned memory: after request 2 of the step ends request 1, 8192 bytes (activation of linear); the plan has "
      "the end "
      "of request 2, 4096 bytes (activation of gelu), there: make the plan again for this step";
  CHECK(b.checked() == message);
  CHECK(b.refusal(small) == message);
  CHECK(b.refusal(large) == message);
  b.end(two, medium);
}

TEST_CASE("an end where the plan has a request is a departure") {
  bench b;
  void* one = b.begin(large);
  b.end(one, large);
  CHECK(b.checked() ==
        "planned memory: after request 1 of the step ends request 1, 8192 bytes (activation of linear); the plan has a "
        "request for 4096 bytes (activation of gelu) there: make the plan again for this step");
}

TEST_CASE("after a departure requests are refused until all is given back, and then a new step begins") {
  bench b;
  void* one = b.begin(large);
  void* two = b.begin(medium);
  const std::string message = b.refusal(large);
  CHECK(message != "");
  b.end(one, large);
  CHECK(b.refusal(large) == message);  // gelu is still out
  CHECK(b.refusal(medium) == message);
  b.end(two, medium);
  CHECK(b.checked() == message);
  b.whole_step();
  CHECK(b.checked() == "");
  b.whole_step();
  CHECK(b.checked() == "");
}

TEST_CASE("a step that an exception unwound is followed by a whole one, wherever it stopped") {
  for (int stop = 1; stop <= 3; ++stop) {
    bench b;
    void* one = b.begin(large);
    void* two = stop > 1 ? b.begin(medium) : nullptr;
    if (stop > 2) {
      b.end(two, medium);
      two = b.begin(small);
    }
    if (two != nullptr) b.end(two, stop > 2 ? small : medium);
    b.end(one, large);
    b.whole_step();
    CHECK(b.checked() == "");
  }
}

TEST_CASE("a step that ends early is found when the next one begins, also where nothing is live") {
  memory_plan plan;
  plan.allocations = {{64, category::input, "a", 0}, {128, category::input, "b", 0}};
  plan.events = {{0, true}, {0, false}, {1, true}, {1, false}};
  plan.bytes = 128;
  bench b(plan);
  const ask first{64, category::input, "a"}, second{128, category::input, "b"};
  const std::string early =
      "planned memory: request 2 of the step asks 64 bytes (input of a); the plan has 128 bytes (input of b) there: "
      "make "
      "the plan again for this step";
  CHECK(b.refusal(first) == "");
  CHECK(b.refusal(first) == early);  // b was not asked for
  CHECK(b.refusal(first) == "");
  CHECK(b.refusal(second) == "");
  CHECK(b.refusal(first) == "");
  CHECK(b.refusal(first) == early);
}

TEST_CASE("a step that an exception unwinds may be followed by a whole one") {
  memory_plan plan;
  plan.allocations = {{64, category::input, "a", 0}, {128, category::input, "b", 0}};
  plan.events = {{0, true}, {0, false}, {1, true}, {1, false}};
  plan.bytes = 128;
  host_resource heap;
  stream on;
  planned_resource planned(plan, heap, on);
  struct block {  // freed at the end of its scope
    block(planned_resource& of, stream& by, std::size_t bytes, std::string_view source)
        : from(of),
          order(by),
          request{.bytes = bytes, .what = category::input, .source = source},
          memory(from.allocate(request, order)) {}
    ~block() { from.deallocate(memory, request, order); }
    block(const block&) = delete;
    block& operator=(const block&) = delete;
    planned_resource& from;
    stream& order;
    memory_request request;
    void* memory;
  };
  for (int i = 0; i < 3; ++i) {
    try {
      const block a(planned, on, 64, "a");
      throw std::runtime_error("no more data");
    } catch (const std::runtime_error&) {}
    CHECK_NOTHROW(block(planned, on, 64, "a"));
    CHECK_NOTHROW(block(planned, on, 128, "b"));
  }
  CHECK(planned.live_blocks() == 0);
}

TEST_CASE("restart begins a new step, and refuses while something is handed out") {
  memory_plan plan;
  plan.allocations = {{64, category::input, "a", 0}, {64, category::input, "a", 0}, {64, category::input, "b", 64}};
  plan.events = {{0, true}, {0, false}, {1, true}, {2, true}, {2, false}, {1, false}};
  plan.bytes = 128;
  bench b(plan);
  const ask a{64, category::input, "a"};
  CHECK(b.refusal(a) == "");
  b.planned.restart();
  void* one = b.begin(a);
  CHECK_THROWS_WITH_AS(b.planned.restart(), "planned memory: restart() while blocks are in use (1); free them first",
                       error);
  b.end(one, a);
  CHECK(b.checked() == "");  // without the restart, the plan would have had a request here
  void* two = b.begin(a);
  b.end(two, a);
  CHECK(b.checked() != "");
  b.planned.restart();
  CHECK(b.checked() == "");
}

TEST_CASE("a plan without requests refuses every request") {
  bench b{memory_plan{}};
  CHECK(b.below.all().allocations == 0);
  CHECK(b.refusal(small) ==
        "planned memory: request 1 of the step asks 100 bytes (temporary of sum); the plan has no request there: make "
        "the "
        "plan again for this step");
}

TEST_CASE("a region that cannot be had is out of memory, with its size") {
  stream s;
  host_resource heap;
  limit_resource small(heap, 1000);
  std::string message;
  memory_figures figures;
  try {
    planned_resource planned(small_plan(), small, s);
  } catch (const out_of_memory& e) {
    message = e.what();
    figures = e.figures;
  }
  CHECK(message.find("planned memory: no workspace of 12288 bytes: ") == 0);
  CHECK(figures.asked == 12288);
  CHECK(figures.limit == 1000);
}

TEST_CASE("planned memory serves the stream it was made with and no other") {
  bench b;
  stream other;
  CHECK_THROWS_WITH_AS(static_cast<void>(b.planned.allocate(request(large), other)),
                       "planned memory: used on a stream other than that of the plan", error);
  void* const p = b.planned.allocate(request(large), b.s);
  CHECK_THROWS_WITH_AS(b.planned.used_on(p, request(large), other),
                       "planned memory: used on a stream other than that of the plan", error);
  b.planned.used_on(p, request(large), b.s);
  b.planned.deallocate(p, request(large), b.s);
  b.planned.restart();
  b.whole_step();
}

TEST_CASE(
    "planned memory that gets back what it did not hand out, or on another stream, ends the program with one line" *
    doctest::skip(gradus_test::on_windows)) {
  bench b;
  stream other;
  void* const p = b.begin(large);
  std::string said = last_words([&] { b.planned.deallocate(p, request(large), other); });
  CHECK(said.find("is freed on another stream") != std::string::npos);
  CHECK(said.find('\n') == said.size() - 1);
  b.end(p, large);
  said = last_words([&] { b.end(p, large); });
  CHECK(said.find("is freed, but no block is in use") != std::string::npos);
  CHECK(said.find('\n') == said.size() - 1);
}
