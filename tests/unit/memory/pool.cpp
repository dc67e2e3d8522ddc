// The pool's own promises: reuse without the heap, segments, and what it says when memory runs out.
#include <doctest/doctest.h>

#include <cstring>
#include <gradus/memory/buffer.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/pool_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <new>
#include <random>
#include <vector>

#include "../../support/counted_heap.hpp"

using namespace gradus;

namespace {
constexpr std::size_t mebibyte = std::size_t{1} << 20;
memory_request of(std::size_t bytes) { return {bytes, category::temporary}; }
}  // namespace

TEST_CASE("the smallest free range that is large enough is taken, and neighbours become one again") {
  host_resource heap;
  pool_resource pool(heap, 64 * 100);
  stream s;
  void* a = pool.allocate(of(64 * 10), s);
  void* b = pool.allocate(of(64), s);
  void* c = pool.allocate(of(64 * 5), s);
  void* d = pool.allocate(of(64), s);
  pool.deallocate(a, of(64 * 10), s);
  pool.deallocate(c, of(64 * 5), s);
  CHECK(pool.allocate(of(64 * 5 - 3), s) == c);
  CHECK(pool.allocate(of(64 * 6), s) == a);
  pool.deallocate(a, of(64 * 6), s);
  pool.deallocate(c, of(64 * 5), s);
  pool.deallocate(d, of(64), s);
  pool.deallocate(b, of(64), s);
  CHECK(pool.live_bytes() == 0);
  CHECK(pool.reserved_bytes() == 64 * 100);
  CHECK(pool.allocate(of(64 * 100), s) == a);  // all of the segment
  CHECK(pool.reserved_bytes() == 64 * 100);
  pool.deallocate(a, of(64 * 100), s);
}

TEST_CASE("the same requests again ask neither the heap nor the resource below") {
  host_resource heap;
  stats_resource below(heap);
  pool_resource pool(below, mebibyte);
  stream s, side;
  context<cpu> ctx{s, pool};
  const auto step = [&] {
    std::mt19937 random(5);
    static std::vector<buffer<cpu>> live;
    live.reserve(200);
    for (int i = 0; i < 3000; ++i) {
      if (live.size() < 100 && random() % 3 != 0) {
        live.emplace_back(ctx, 1 + random() % 100000, category::activation);
        if (random() % 4 == 0) live.back().used_on(side);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        live.pop_back();
      }
    }
    live.clear();
  };
  step();
  step();
  const std::size_t requests = heap_requests(), segments = below.all().allocations;
  for (int i = 0; i < 5; ++i) step();
  CHECK(heap_requests() == requests);
  CHECK(below.all().allocations == segments);
}

TEST_CASE("giving back asks the heap for nothing, the first time neither") {
  host_resource heap;
  pool_resource pool(heap, mebibyte);
  stream s, side;
  std::vector<void*> live;
  for (int i = 0; i < 500; ++i) {
    live.push_back(pool.allocate(of(3000), s));
    if (i % 7 == 0) pool.used_on(live.back(), of(3000), side);
  }
  const std::size_t requests = heap_requests();
  for (std::size_t i = 0; i < live.size(); i += 2) pool.deallocate(live[i], of(3000), s);
  for (std::size_t i = 1; i < live.size(); i += 2) pool.deallocate(live[i], of(3000), s);
  CHECK(heap_requests() == requests);
}

TEST_CASE("when any one heap request of the pool's own fails, no segment is lost and the pool goes on") {
  for (long n = 0; n < 40; ++n) {
    CAPTURE(n);
    host_resource heap;
    stats_resource below(heap);
    {
      pool_resource pool(below, 4096);
      stream s, side;
      std::vector<void*> live;
      live.reserve(100);
      fail_heap_request(n);
      for (int i = 0; i < 20; ++i) {
        try {
          live.push_back(pool.allocate(of(1000), s));
          pool.used_on(live.back(), of(1000), side);
        } catch (const std::bad_alloc&) {
        } catch (const out_of_memory&) {  // where the heap failed below the pool
        }
      }
      fail_heap_request(-1);
      CHECK(live.size() >= 19);
      CHECK(pool.live_bytes() == live.size() * 1024);
      for (void* p : live) pool.deallocate(p, of(1000), s);
      pool.release();
      CHECK(pool.reserved_bytes() == 0);
      CHECK(below.all().live == 0);
    }
    CHECK(below.all().live == 0);
  }
}

TEST_CASE("segments with nothing live go back on release(), and all go back at the end") {
  host_resource heap;
  stats_resource below(heap);
  stream s;
  {
    pool_resource pool(below, 4096);
    void* a = pool.allocate(of(4096), s);
    void* b = pool.allocate(of(4096), s);
    CHECK(below.all().live == 8192);
    pool.deallocate(b, of(4096), s);
    CHECK(pool.cached_bytes() == 4096);
    pool.release();
    CHECK(below.all().live == 4096);
    CHECK(pool.cached_bytes() == 0);
    pool.deallocate(a, of(4096), s);
  }
  CHECK(below.all().live == 0);
}

TEST_CASE("out of memory, the pool gives back what it keeps and asks again") {
  host_resource heap;
  limit_resource limit(heap, 10 * mebibyte);
  pool_resource pool(limit, mebibyte);
  stream s;
  std::vector<void*> small;
  for (int i = 0; i < 8; ++i) small.push_back(pool.allocate(of(mebibyte), s));
  for (void* p : small) pool.deallocate(p, of(mebibyte), s);
  CHECK(pool.cached_bytes() == 8 * mebibyte);
  void* large = pool.allocate(of(9 * mebibyte), s);  // no segment is that large: all eight have to go
  CHECK(pool.reserved_bytes() == 9 * mebibyte);
  pool.deallocate(large, of(9 * mebibyte), s);
}

TEST_CASE("where a whole segment does not fit, the pool asks for what the request needs, and keeps what it has") {
  host_resource heap;
  limit_resource limit(heap, 12 * mebibyte);
  pool_resource pool(limit, 7 * mebibyte);
  stream s;
  void* p = pool.allocate(of(7 * mebibyte), s);
  void* q = pool.allocate(of(2 * mebibyte), s);
  CHECK(pool.reserved_bytes() == 9 * mebibyte);
  pool.deallocate(q, of(2 * mebibyte), s);
  void* r = pool.allocate(of(3 * mebibyte), s);
  CHECK(pool.reserved_bytes() == 12 * mebibyte);
  CHECK(pool.cached_bytes() == 2 * mebibyte);
  pool.deallocate(r, of(3 * mebibyte), s);
  pool.deallocate(p, of(7 * mebibyte), s);
}

TEST_CASE("the pool's last word says what was asked, live, cached, the limit and what would fit") {
  host_resource heap;
  limit_resource limit(heap, 10 * mebibyte);
  pool_resource pool(limit, 4 * mebibyte);
  stream s;
  void* a = pool.allocate(of(mebibyte), s);
  void* b = pool.allocate(of(2 * mebibyte), s);
  void* c = pool.allocate(of(4 * mebibyte), s);
  pool.deallocate(a, of(mebibyte), s);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(pool.allocate({.bytes = 5 * mebibyte, .what = category::activation, .source = "matmul"}, s)),
      "memory pool: asked 5242880 bytes (5.00 MiB) for activation of matmul; live 6291456 bytes (6.00 "
      "MiB), cached 2097152 bytes (2.00 MiB), limit 10485760 bytes (10.00 MiB); at most 2097152 bytes "
      "(2.00 MiB) would fit",
      out_of_memory);
  void* d = pool.allocate(of(2 * mebibyte), s);  // and so it does
  CHECK_THROWS_AS(static_cast<void>(pool.allocate(of(2 * mebibyte + 1), s)), out_of_memory);
  pool.deallocate(b, of(2 * mebibyte), s);
  pool.deallocate(c, of(4 * mebibyte), s);
  pool.deallocate(d, of(2 * mebibyte), s);
}

TEST_CASE("a refusal below the pool changes nothing but what it keeps") {
  host_resource heap;
  testing::failing_resource faults(heap);
  pool_resource pool(faults, 4096);
  stream s;
  void* a = pool.allocate(of(4096), s);
  faults.fail_at(0, 100);
  CHECK_THROWS_AS(static_cast<void>(pool.allocate(of(64), s)), out_of_memory);
  CHECK(pool.live_bytes() == 4096);
  faults.fail_at(0, 0);
  void* b = pool.allocate(of(64), s);
  pool.deallocate(a, of(4096), s);
  pool.deallocate(b, of(64), s);
  CHECK(pool.live_bytes() == 0);
}
