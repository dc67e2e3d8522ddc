// That planned memory asks the heap for nothing; its behaviour is tested in tests/unit/memory/planned.cpp.
#include <doctest/doctest.h>

#include <cstddef>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/planned_resource.hpp>

#include "../../support/counted_heap.hpp"

namespace gr = gradus;

TEST_CASE("a step in planned memory asks the heap for nothing, nor does one that departs from its plan") {
  gr::memory_plan plan;
  plan.allocations = {{1000, gr::category::activation, "a", 0}, {500, gr::category::temporary, "b", 1024}};
  plan.events = {{0, true}, {1, true}, {1, false}, {0, false}};
  plan.bytes = 1024 + 512;
  gr::stream s;
  gr::host_resource heap;
  gr::planned_resource planned(plan, heap, s);
  const gr::memory_request a{1000, gr::category::activation, 0, "a"}, b{500, gr::category::temporary, 1, "b"};

  const std::size_t before = heap_requests();
  for (int step = 0; step < 3; ++step) {
    void* one = planned.allocate(a, s);
    void* two = planned.allocate(b, s);
    planned.deallocate(two, b, s);
    planned.deallocate(one, a, s);
  }
  void* one = planned.allocate(a, s);
  void* two = planned.allocate(b, s);
  planned.deallocate(one, a, s);  // before its time: remembered without a message
  planned.deallocate(two, b, s);
  CHECK(heap_requests() == before);
  CHECK_THROWS_AS(planned.check(), gr::error);
}
