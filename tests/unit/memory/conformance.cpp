// One suite for every memory resource: what memory_resource promises, whoever serves it.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <random>
#include <string>
#include <vector>

using namespace gradus;

namespace {

struct plain_host {
  host_resource resource;
};
struct counted {
  host_resource heap;
  stats_resource resource{heap};
};
struct limited {
  host_resource heap;
  limit_resource resource{heap, std::size_t{1} << 30};
};
struct failing {
  host_resource heap;
  testing::failing_resource resource{heap};
};
struct stacked {
  host_resource heap;
  stats_resource inner{heap};
  limit_resource middle{inner, std::size_t{1} << 30};
  testing::failing_resource outer{middle};
  stats_resource resource{outer};
};

struct piece {
  memory_request request;
  void* memory;
  unsigned char mark;
};

}  // namespace

#define EVERY_RESOURCE plain_host, counted, limited, failing, stacked

TEST_CASE_TEMPLATE("a request of zero bytes returns null, which may be given back", Fixture, EVERY_RESOURCE) {
  Fixture f;
  stream s;
  const memory_request none{0, category::input};
  void* p = f.resource.allocate(none, s);
  CHECK(p == nullptr);
  f.resource.deallocate(p, none, s);
}

TEST_CASE_TEMPLATE("every address is aligned", Fixture, EVERY_RESOURCE) {
  Fixture f;
  stream s;
  for (std::size_t bytes = 1; bytes < 300; ++bytes) {
    const memory_request request{bytes, category::temporary};
    void* p = f.resource.allocate(request, s);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % memory_request::alignment == 0);
    f.resource.deallocate(p, request, s);
  }
}

TEST_CASE_TEMPLATE("pieces of random sizes, freed in random order, never overlap", Fixture, EVERY_RESOURCE) {
  Fixture f;
  stream s;
  std::mt19937 random(1);
  std::vector<piece> live;
  bool intact = true;
  for (int round = 0; round < 2000; ++round) {
    if (live.size() < 40 || random() % 2 == 0) {
      const std::size_t bytes = 1 + random() % (random() % 16 == 0 ? 200000 : 2000);
      const memory_request request{bytes, static_cast<category>(random() % category_count)};
      piece p{request, f.resource.allocate(request, s), static_cast<unsigned char>(random())};
      std::memset(p.memory, p.mark, bytes);
      live.push_back(p);
    } else {
      std::swap(live[random() % live.size()], live.back());
      const piece p = live.back();
      live.pop_back();
      const auto* bytes = static_cast<const unsigned char*>(p.memory);
      for (std::size_t i = 0; i < p.request.bytes; ++i) intact = intact && bytes[i] == p.mark;
      f.resource.deallocate(p.memory, p.request, s);
    }
  }
  for (const piece& p : live) f.resource.deallocate(p.memory, p.request, s);
  CHECK(intact);
}

TEST_CASE_TEMPLATE("a request that cannot be served throws out_of_memory, and the next one is served", Fixture,
                   EVERY_RESOURCE) {
  Fixture f;
  stream s;
  for (const std::size_t bytes : {std::size_t{1} << 60, std::size_t(-1)})
    CHECK_THROWS_AS(static_cast<void>(f.resource.allocate({bytes, category::activation}, s)), out_of_memory);
  const memory_request small{100, category::activation};
  void* p = f.resource.allocate(small, s);
  CHECK(p != nullptr);
  f.resource.deallocate(p, small, s);
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
  stats.deallocate(pb, b, s);
  CHECK(stats.all().live == 0);
}

TEST_CASE("a limit says what was asked, what is live and what the limit is, and counts nothing for a refusal") {
  host_resource heap;
  limit_resource limit(heap, 1000);
  stream s;
  const memory_request first{600, category::input}, second{401, category::input}, rest{400, category::input};
  void* p = limit.allocate(first, s);
  std::string message;
  try {
    static_cast<void>(limit.allocate(second, s));
  } catch (const out_of_memory& e) { message = e.what(); }
  CHECK(message == "memory limit: asked 401 bytes with 600 live of a limit of 1000; at most 400 would fit");
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
