// Leaks by name, and the mistakes that end the program.
#include <doctest/doctest.h>

#include <gradus/memory/buffer.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/measured_trace.hpp>
#include <gradus/memory/pool_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/memory/tracking_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <stdexcept>
#include <string>

#include "dies.hpp"

using namespace gradus;

namespace {
const memory_request request{.bytes = 100, .what = category::activation, .id = 7, .source = "matmul"};

template <class Resource>
struct over_heap {
  host_resource heap;
  Resource resource{heap};
  stream s;
};
template <>
struct over_heap<limit_resource> {
  host_resource heap;
  limit_resource resource{heap, 1000};
  stream s;
};
bool one_line(const std::string& text) { return text.find('\n') == text.size() - 1; }
}  // namespace

TEST_CASE("what is live is listed by what it was for, where it came from and when") {
  over_heap<tracking_resource> t;
  context<cpu> ctx{t.s, t.resource};
  CHECK(t.resource.outstanding().empty());
  CHECK(t.resource.report() == "0 live blocks, 0 bytes (0.00 MiB)\n");
  const buffer<cpu> first(ctx, 3 << 20, category::parameter);
  t.resource.label("warm-up");
  {
    const context<cpu>::running op(ctx, {.name = "softmax", .phase = phase::forward, .work = {}});
    const buffer<cpu> gone(ctx, 10, category::temporary);
    const buffer<cpu> kept(ctx, 200, category::activation);
    const auto blocks = t.resource.outstanding();
    REQUIRE(blocks.size() == 3);
    CHECK(blocks[2].memory == kept.data());
    CHECK(blocks[2].request.source == "softmax");
    CHECK(blocks[2].label == "warm-up");
    CHECK(t.resource.report() ==
          "3 live blocks, 3145938 bytes (3.00 MiB)\n"
          "  3145728 bytes (3.00 MiB), parameter, phase outside, request 0\n"
          "  10 bytes (0.00 MiB), temporary of softmax, phase forward, request 1, warm-up\n"
          "  200 bytes (0.00 MiB), activation of softmax, phase forward, request 2, warm-up\n");
  }
  CHECK(t.resource.outstanding().size() == 1);
}

TEST_CASE("at its end a tracking resource tells of leaks, and of nothing else") {
  host_resource heap;
  stream s;
  int told = 0;
  std::string text;
  const auto tell = [&](const std::string& report) {
    ++told;
    text = report;
    throw std::runtime_error("dropped");
  };
  {
    tracking_resource clean(heap, tell);
    clean.deallocate(clean.allocate(request, s), request, s);
  }
  CHECK(told == 0);
  void* leaked = nullptr;
  {
    tracking_resource leaky(heap, tell);
    leaked = leaky.allocate(request, s);
  }
  CHECK(told == 1);
  CHECK(
      text ==
      "1 live blocks, 100 bytes (0.00 MiB)\n  100 bytes (0.00 MiB), activation of matmul, phase outside, request 7\n");
  heap.deallocate(leaked, request, s);
}

TEST_CASE_TEMPLATE("giving back twice ends the program with one line that says so" *
                       doctest::skip(gradus_test::on_windows),
                   Resource, tracking_resource, pool_resource) {
  over_heap<Resource> t;
  void* const keep = t.resource.allocate(request, t.s);
  for (const bool neighbour_too : {false, true}) {  // the pool has then merged the block with what lies before it
    const std::string said = last_words([&] {
      void* const p = t.resource.allocate(request, t.s);
      if (neighbour_too) t.resource.deallocate(keep, request, t.s);
      t.resource.deallocate(p, request, t.s);
      t.resource.deallocate(p, request, t.s);
    });
    CAPTURE(said);
    CHECK(said.find("freed twice") != std::string::npos);
    CHECK(said.find("freed as request 7, 100 bytes, activation of matmul)") != std::string::npos);
    CHECK(one_line(said));
  }
  t.resource.deallocate(keep, request, t.s);
}

TEST_CASE_TEMPLATE("giving back what is from elsewhere ends the program with one line that says so" *
                       doctest::skip(gradus_test::on_windows),
                   Resource, tracking_resource, pool_resource) {
  over_heap<Resource> t;
  alignas(64) unsigned char foreign[128];
  void* const p = t.resource.allocate(request, t.s);
  for (void* const wrong : {static_cast<void*>(foreign), static_cast<void*>(static_cast<char*>(p) + 32),
                            static_cast<void*>(static_cast<char*>(p) - 64)}) {
    const std::string said = last_words([&] { t.resource.deallocate(wrong, request, t.s); });
    CAPTURE(said);
    CHECK((said.find("belongs to another resource") != std::string::npos ||
           said.find("does not belong to this pool") != std::string::npos ||
           said.find("is not the start of a block") != std::string::npos));
    CHECK(one_line(said));
  }
  t.resource.deallocate(p, request, t.s);
}

TEST_CASE_TEMPLATE("giving back another size ends the program with one line that says so" *
                       doctest::skip(gradus_test::on_windows),
                   Resource, tracking_resource, pool_resource) {
  over_heap<Resource> t;
  void* const p = t.resource.allocate(request, t.s);
  const std::string said = last_words([&] { t.resource.deallocate(p, {.bytes = 300, .what = category::input}, t.s); });
  CAPTURE(said);
  CHECK(said.find("was allocated with another size (freed as request 0, 300 bytes, input)") != std::string::npos);
  CHECK(one_line(said));
  t.resource.deallocate(p, request, t.s);
}

TEST_CASE_TEMPLATE("what counts bytes ends the program with one line when more come back than went out" *
                       doctest::skip(gradus_test::on_windows),
                   Resource, stats_resource, limit_resource, trace_resource, testing::failing_resource,
                   tracking_resource, pool_resource) {
  over_heap<Resource> t;
  void* const p = t.resource.allocate(request, t.s);
  const std::string said = last_words([&] {
    t.resource.deallocate(p, request, t.s);
    t.resource.deallocate(p, request, t.s);
  });
  CAPTURE(said);
  CHECK(said.find("resource: 0x") != std::string::npos);
  CHECK(said.find("100 bytes, activation of matmul)") != std::string::npos);
  CHECK(one_line(said));
  t.resource.deallocate(p, request, t.s);
}
