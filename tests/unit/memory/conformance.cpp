// One suite for every memory resource, alone and stacked: what basic_resource promises, whoever serves it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/measured_trace.hpp>
#include <gradus/memory/pool_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/memory/tracking_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../../support/simulated_stream.hpp"

using namespace gradus;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

struct on_cpu {
  using stream_type = stream;
  host_resource heap;
  limit_resource limit{heap, 24 * mebibyte};
};
struct plain_host {
  using stream_type = stream;
  host_resource resource;
};
struct limited {
  using stream_type = stream;
  host_resource heap;
  limit_resource resource{heap, 24 * mebibyte};
};
struct counted : on_cpu {
  stats_resource resource{limit};
};
struct failing : on_cpu {
  testing::failing_resource resource{limit};
};
struct tracked : on_cpu {
  tracking_resource resource{limit};
};
struct timed : on_cpu {
  trace_resource resource{limit};
};
struct being_traced : on_cpu {
  step_trace trace;
  trace_resource resource{limit};
  being_traced() { resource.start(trace); }
};
struct pooled : on_cpu {
  pool_resource resource{limit};
};
struct pooled_in_small_segments : on_cpu {
  pool_resource resource{limit, 4096};
};
struct pool_of_pools : on_cpu {
  pool_resource below{limit, 8 * mebibyte};
  pool_resource resource{below, mebibyte};
};
struct stacked : on_cpu {
  stats_resource inner{limit};
  pool_resource pool{inner, mebibyte};
  testing::failing_resource faults{pool};
  tracking_resource tracking{faults};
  stats_resource resource{tracking};
};
struct simulated_pool {
  using stream_type = testing::simulated_stream;
  testing::simulated_memory memory{24 * mebibyte};
  basic_pool_resource<testing::simulated_stream> resource{memory, mebibyte};
};
struct simulated_stack {
  using stream_type = testing::simulated_stream;
  testing::simulated_memory memory{24 * mebibyte};
  basic_pool_resource<testing::simulated_stream> pool{memory, mebibyte};
  basic_limit_resource<testing::simulated_stream> limit{pool, 20 * mebibyte};
  testing::basic_failing_resource<testing::simulated_stream> faults{limit};
  basic_tracking_resource<testing::simulated_stream> tracking{faults};
  basic_stats_resource<testing::simulated_stream> resource{tracking};
};

#define WITH_A_LIMIT                                                                                                 \
  limited, counted, failing, tracked, timed, being_traced, pooled, pooled_in_small_segments, pool_of_pools, stacked, \
      simulated_pool
#define EVERY_RESOURCE plain_host, WITH_A_LIMIT, simulated_stack

template <class Stream>
struct piece {
  memory_request request;
  unsigned char* memory;
  unsigned char mark;

  static piece take(basic_resource<Stream>& from, std::size_t bytes, Stream& on, unsigned random) {
    const memory_request request{.bytes = bytes, .what = static_cast<category>(random % category_count)};
    piece p{request, static_cast<unsigned char*>(from.allocate(request, on)), static_cast<unsigned char>(random >> 8)};
    std::memset(p.memory, p.mark, bytes);
    return p;
  }
  /// Gives the piece back; true if nobody else wrote to it.
  bool give(basic_resource<Stream>& to, Stream& on) const {
    const bool intact = std::all_of(memory, memory + request.bytes, [&](unsigned char c) { return c == mark; });
    to.deallocate(memory, request, on);
    return intact;
  }
};

// Takes and gives back at random; at most `most` bytes of them live, and 8 MiB ever. False if a piece was overwritten.
template <class Stream>
bool churn(basic_resource<Stream>& resource, Stream& s, unsigned seed, std::size_t most) {
  std::mt19937 random(seed);
  std::vector<piece<Stream>> live;
  std::size_t bytes = 0, ever = 0;
  bool intact = true;
  const auto give = [&](std::size_t i) {
    std::swap(live[i], live.back());
    bytes -= live.back().request.bytes;
    intact = live.back().give(resource, s) && intact;
    live.pop_back();
  };
  for (int round = 0; round < 2000; ++round) {
    const std::size_t next = 1 + random() % (random() % 16 == 0 ? 200000 : 2000);
    if (!live.empty() && (random() % 2 == 0 || bytes + next > most)) {
      give(random() % live.size());
    } else if (bytes + next <= most && ever + next + 64 <= 8 * mebibyte) {
      live.push_back(piece<Stream>::take(resource, next, s, static_cast<unsigned>(random())));
      bytes += next;
      ever += next + 64;
    }
  }
  while (!live.empty()) give(live.size() - 1);
  return intact;
}

}  // namespace

TEST_CASE_TEMPLATE("a request of zero bytes returns null, which may be given back", Fixture, EVERY_RESOURCE) {
  Fixture f;
  typename Fixture::stream_type s;
  const memory_request none{0, category::input};
  void* p = f.resource.allocate(none, s);
  CHECK(p == nullptr);
  f.resource.used_on(p, none, s);
  f.resource.deallocate(p, none, s);
}

TEST_CASE_TEMPLATE("every address is aligned", Fixture, EVERY_RESOURCE) {
  Fixture f;
  typename Fixture::stream_type s;
  for (std::size_t bytes = 1; bytes < 300; ++bytes) {
    const memory_request request{bytes, category::temporary};
    void* p = f.resource.allocate(request, s);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % memory_request::alignment == 0);
    f.resource.deallocate(p, request, s);
  }
}

TEST_CASE_TEMPLATE("a hundred random sizes live side by side", Fixture, EVERY_RESOURCE) {
  Fixture f;
  typename Fixture::stream_type s;
  std::mt19937 random(3);
  std::vector<piece<typename Fixture::stream_type>> live;
  for (int i = 0; i < 100; ++i)
    live.push_back(piece<typename Fixture::stream_type>::take(f.resource, 1 + random() % 100000, s,
                                                              static_cast<unsigned>(random())));
  for (const auto& p : live) CHECK(p.give(f.resource, s));
}

TEST_CASE_TEMPLATE("pieces of random sizes, given back in random order, never overlap", Fixture, EVERY_RESOURCE) {
  Fixture f;
  typename Fixture::stream_type s;
  CHECK(churn<typename Fixture::stream_type>(f.resource, s, 1, 4 * mebibyte));
}

TEST_CASE_TEMPLATE("a request that cannot be served throws out_of_memory in one line, and the next one is served",
                   Fixture, EVERY_RESOURCE) {
  Fixture f;
  typename Fixture::stream_type s;
  constexpr std::size_t pebibyte = std::size_t{1} << 50;
  for (const std::size_t bytes : {pebibyte, std::size_t{1} << 60, std::size_t(-1) - 1, std::size_t(-1)}) {
    std::string message;
    try {
      static_cast<void>(f.resource.allocate({.bytes = bytes, .what = category::activation, .source = "matmul"}, s));
    } catch (const out_of_memory& e) { message = e.what(); }
    CHECK(message.find("asked " + std::to_string(bytes) + " bytes (") != std::string::npos);
    CHECK(message.find(" MiB) for activation of matmul; ") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  const memory_request small{100, category::activation};
  void* p = f.resource.allocate(small, s);
  CHECK(p != nullptr);
  f.resource.deallocate(p, small, s);
}

TEST_CASE_TEMPLATE(
    "when memory is used up, what was there is intact, and as much is served again once it is given back", Fixture,
    WITH_A_LIMIT) {
  using Piece = piece<typename Fixture::stream_type>;
  Fixture f;
  typename Fixture::stream_type s;
  std::size_t first = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<Piece> live;
    try {
      while (true) live.push_back(Piece::take(f.resource, 300007, s, static_cast<unsigned>(live.size() * 2654435761u)));
    } catch (const out_of_memory& e) {
      CHECK(e.figures.asked == 300007);
      CHECK(e.figures.fits < 300007);
    }
    if (round == 0) first = live.size();
    CHECK(live.size() == first);
    CHECK(live.size() * 300007 >= 20 * mebibyte);
    for (const Piece& p : live) CHECK(p.give(f.resource, s));
  }
  // What is left in small pieces becomes one large one.
  const Piece whole = Piece::take(f.resource, 20 * mebibyte, s, 7);
  CHECK(whole.give(f.resource, s));
}

TEST_CASE("statistics count bytes live, at most, ever and by category, and leave out what failed") {
  host_resource heap;
  testing::failing_resource faults(heap);
  stats_resource stats(faults);
  stream s;
  const memory_request a{100, category::parameter}, b{50, category::activation};
  void* pa = stats.allocate(a, s);
  void* pb = stats.allocate(b, s);
  faults.fail_at(0);
  CHECK_THROWS_AS(static_cast<void>(stats.allocate(a, s)), out_of_memory);
  CHECK(stats.all().live == 150);
  CHECK(stats.of(category::parameter).live == 100);
  stats.deallocate(pa, a, s);
  CHECK(stats.all().live == 50);
  CHECK(stats.all().peak == 150);
  CHECK(stats.all().total == 150);
  CHECK(stats.all().allocations == 2);
  stats.reset_peak();
  CHECK(stats.all().peak == 50);
  CHECK(stats.of(category::parameter).peak == 0);
  CHECK(stats.of(category::activation).peak == 50);
  CHECK(stats.at_peak(category::activation) == 50);
  stats.deallocate(pb, b, s);
  CHECK(stats.all().live == 0);
}

TEST_CASE("statistics say which categories were live at the peak of all") {
  host_resource heap;
  stats_resource stats(heap);
  stream s;
  const memory_request early{100, category::gradient}, late{130, category::activation}, small{20, category::parameter};
  void* p = stats.allocate(small, s);
  void* q = stats.allocate(early, s);
  stats.deallocate(q, early, s);
  q = stats.allocate(late, s);
  CHECK(stats.all().peak == 150);
  CHECK(stats.at_peak(category::parameter) == 20);
  CHECK(stats.at_peak(category::activation) == 130);
  CHECK(stats.at_peak(category::gradient) == 0);  // its own peak was at another time
  CHECK(stats.of(category::gradient).peak == 100);
  stats.deallocate(q, late, s);
  stats.deallocate(p, small, s);
}

TEST_CASE("a limit says what was asked, what is live and what the limit is, and counts nothing for a refusal") {
  host_resource heap;
  limit_resource limit(heap, 1000);
  stream s;
  const memory_request first{600, category::input}, second{401, category::input}, rest{400, category::input};
  void* p = limit.allocate(first, s);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(limit.allocate(second, s)),
      "memory limit: asked 401 bytes (0.00 MiB) for input; live 600 bytes (0.00 MiB), limit 1000 bytes "
      "(0.00 MiB); at most 400 bytes (0.00 MiB) would fit",
      out_of_memory);
  CHECK(limit.live() == 600);
  void* q = limit.allocate(rest, s);
  CHECK(limit.live() == 1000);
  limit.deallocate(q, rest, s);
  limit.deallocate(p, first, s);
  CHECK(limit.live() == 0);
}

TEST_CASE("a failure below a limit is not counted as live") {
  host_resource heap;
  testing::failing_resource faults(heap);
  limit_resource limit(faults, 1000);
  stream s;
  faults.fail_at(0);
  CHECK_THROWS_AS(static_cast<void>(limit.allocate({10, category::input}, s)), out_of_memory);
  CHECK(limit.live() == 0);
  CHECK_FALSE(faults.armed());
}

TEST_CASE("faults are injected where and as often as they were ordered") {
  host_resource heap;
  testing::failing_resource faults(heap);
  stream s;
  const memory_request r{10, category::input};
  faults.fail_at(2, 2);
  std::string served;
  for (int i = 0; i < 6; ++i) {
    try {
      faults.deallocate(faults.allocate(r, s), r, s);
      served += '+';
    } catch (const out_of_memory&) { served += '-'; }
  }
  CHECK(served == "++--++");
  CHECK(faults.requests() == 6);
}
