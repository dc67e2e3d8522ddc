#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <gradus/autodiff/node.hpp>
#include <gradus/memory/buffer.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/limit_resource.hpp>
#include <gradus/memory/planned_resource.hpp>
#include <gradus/memory/pool_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "dies.hpp"

using namespace gradus;

namespace {
struct bench {
  stream s;
  host_resource heap;
  testing::failing_resource faults{heap};
  stats_resource stats{faults};
  context<cpu> ctx{s, stats};
};
}  // namespace

TEST_CASE("copies of a buffer share its bytes, and the last one returns them") {
  bench b;
  {
    buffer<cpu> first(b.ctx, 256, category::input);
    CHECK(first.unique());
    {
      const buffer<cpu> second = first;
      CHECK_FALSE(first.unique());
      CHECK(second.data() == first.data());
    }
    CHECK(first.unique());
    CHECK(first.bytes() == 256);
    CHECK(&first.owner() == &b.ctx);
    CHECK(b.stats.of(category::input).live == 256);
  }
  CHECK(b.stats.all().live == 0);
  CHECK(b.stats.all().allocations == 1);
}

TEST_CASE("a moved-from buffer is empty, and assignment gives the old bytes back") {
  bench b;
  buffer<cpu> first(b.ctx, 64, category::input);
  buffer<cpu> second = std::move(first);
  CHECK_FALSE(first);
  CHECK_FALSE(first.unique());
  CHECK(second);
  second = buffer<cpu>(b.ctx, 128, category::input);
  CHECK(b.stats.all().live == 128);
  const auto& itself = second;
  second = itself;
  CHECK(second.unique());
  second = {};
  CHECK(b.stats.all().live == 0);
}

TEST_CASE("a buffer of zero bytes exists and holds nothing") {
  bench b;
  const buffer<cpu> none(b.ctx, 0, category::input);
  CHECK(none);
  CHECK(none.data() == nullptr);
  CHECK(b.stats.all().allocations == 0);
}

TEST_CASE("a context uses its control blocks again, also that of a request that failed") {
  bench b;
  std::set<memory_block<cpu>*> seen;
  for (int i = 0; i < 1000; ++i) {
    memory_block<cpu>* first = b.ctx.acquire(64, category::input);
    memory_block<cpu>* second = b.ctx.acquire(64, category::input);
    seen.insert(first);
    seen.insert(second);
    b.ctx.release(first);
    b.ctx.release(second);
    b.faults.fail_at(0);
    CHECK_THROWS_AS(b.ctx.acquire(64, category::input), out_of_memory);
  }
  CHECK(seen.size() <= 3);
}

TEST_CASE("more buffers than one chunk of control blocks live side by side") {
  bench b;
  std::vector<buffer<cpu>> many;
  for (int i = 0; i < 1000; ++i) many.emplace_back(b.ctx, 64, category::input);
  CHECK(b.stats.all().live == 64000);
  many.clear();
  CHECK(b.stats.all().live == 0);
}

TEST_CASE("an observer that refuses an operation leaves the context as it was") {
  struct refusing final : observer {
    void begin(const activity&) override { throw error("refused"); }
    void end(const activity&) override {}
  } who;
  bench b;
  b.ctx.observe(&who);
  CHECK_THROWS_AS(context<cpu>::running(b.ctx, {"op", phase::forward, {}}), error);
  CHECK(b.ctx.current().name.empty());
}

namespace {
struct journal {
  explicit journal(context<cpu>&) {}
  std::vector<int>* log = nullptr;
  ~journal() {
    if (log != nullptr) log->push_back(1);
  }
};
struct later : journal {
  using journal::journal;
  ~later() {
    if (log != nullptr) log->push_back(2);
    log = nullptr;
  }
};
}  // namespace

TEST_CASE("a context keeps one object of each type, and ends the last made first") {
  std::vector<int> log;
  {
    bench b;
    journal& one = b.ctx.get<journal>();
    one.log = &log;
    b.ctx.get<later>().log = &log;
    CHECK(&b.ctx.get<journal>() == &one);
  }
  CHECK(log == std::vector<int>{2, 1});
}

TEST_CASE("parts of a buffer lie in it, allocate nothing and keep it") {
  bench b;
  buffer<cpu> part;
  {
    const buffer<cpu> whole(b.ctx, 1000, category::gradient);
    part = whole.part(128, 200);
    CHECK(part.data() == static_cast<std::byte*>(whole.data()) + 128);
    CHECK(part.bytes() == 200);
    CHECK(&part.owner() == &b.ctx);
    CHECK(part.request().what == category::gradient);
    CHECK(part.request().id == whole.request().id);
    const buffer<cpu> inner = part.part(64, 136);
    CHECK(inner.data() == static_cast<std::byte*>(whole.data()) + 192);
    CHECK(whole.part(0, 1000).bytes() == 1000);
    CHECK(whole.part(960, 0).bytes() == 0);
  }
  CHECK(b.stats.of(category::gradient).live == 1000);
  CHECK(b.stats.all().allocations == 1);
  part = {};
  CHECK(b.stats.all().live == 0);
}

TEST_CASE("a part is unique when no other handle of the whole buffer is left, and sole when no copy of it is") {
  bench b;
  buffer<cpu> whole(b.ctx, 256, category::gradient);
  buffer<cpu> first = whole.part(0, 128);
  CHECK(first.sole());
  CHECK_FALSE(first.unique());
  CHECK_FALSE(whole.unique());  // the part shares its bytes
  {
    const buffer<cpu> copy = first;
    CHECK_FALSE(first.sole());
    CHECK_FALSE(copy.unique());
  }
  buffer<cpu> second = whole.part(128, 128);
  whole = {};
  CHECK_FALSE(first.unique());  // two parts may overlap
  second = {};
  CHECK(first.unique());
  const buffer<cpu> inner = first.part(64, 64);
  CHECK_FALSE(first.unique());
  first = {};
  CHECK(inner.unique());
}

TEST_CASE("a part of a part is unique when no handle of the buffer that both lie in is left") {
  bench b;
  buffer<cpu> whole(b.ctx, 256, category::gradient);
  const buffer<cpu> inner = whole.part(0, 128).part(64, 64);
  CHECK_FALSE(inner.unique());
  whole = {};
  CHECK(inner.unique());
}

TEST_CASE("parts outside of a buffer, and parts that are not aligned, are refused") {
  bench b;
  const buffer<cpu> whole(b.ctx, 256, category::gradient);
  CHECK_THROWS_WITH_AS(whole.part(192, 65),
                       "buffer.part(offset, bytes): 65 bytes from 192 on are not inside a buffer of 256 bytes", error);
  CHECK_THROWS_WITH_AS(whole.part(32, 64), "buffer.part(offset, bytes): the offset (32) must be a multiple of 64",
                       error);
  CHECK_THROWS_AS(whole.part(320, 0), error);
  CHECK_THROWS_AS(whole.part(64, static_cast<std::size_t>(-64)), error);
  CHECK_THROWS_AS(buffer<cpu>().part(0, 0), error);
  CHECK(whole.unique());
}

TEST_CASE("what holds no buffer is poisoned in builds with the address sanitizer") {
  bench b;
  pool_resource pool{b.heap, 4096};
  memory_request request;
  request.bytes = 100;
  const auto poisoned = [](const void* at) { return gradus::detail::is_poisoned(at) == gradus::detail::poisons; };
  const auto usable = [](const void* at) { return !gradus::detail::is_poisoned(at); };
  auto* const at = static_cast<std::byte*>(pool.allocate(request, b.s));
  CHECK(usable(at));
  CHECK(usable(at + 99));
  CHECK(poisoned(at + 104));
  pool.deallocate(at, request, b.s);
  CHECK(poisoned(at));
  CHECK(poisoned(at + 99));
  memory_block<cpu>* const block = b.ctx.acquire(64, category::input);
  CHECK(usable(block));
  b.ctx.release(block);
  CHECK(poisoned(block));
  gradus::arena nodes;
  void* const node = nodes.allocate(48, 16);
  CHECK(usable(node));
  CHECK(poisoned(static_cast<std::byte*>(node) + 48));
  nodes.rewind();
  CHECK(poisoned(node));
}

TEST_CASE("memory that ends while it is in use ends the program, and says which" *
          doctest::skip(gradus_test::on_windows)) {
  CHECK(last_words([] {
          bench b;
          auto* const gone = new context<cpu>(b.s, b.heap);
          const buffer<cpu> first(*gone, 4000, category::activation), second(*gone, 64, category::input);
          delete gone;
        }) ==
        "context ends while 2 buffers (the first: 4000 bytes (0.00 MiB), activation) are in use: tensors, tapes and "
        "optimizers must end before their memory does\n");
  const auto ends_early = [](auto make) {
    bench b;
    auto* const gone = make(b);
    memory_request request;
    request.bytes = 100;
    static_cast<void>(gone->allocate(request, b.s));
    delete gone;
  };
  CHECK(last_words([&] { ends_early([](bench& b) { return new pool_resource(b.heap); }); }) ==
        "pool_resource ends while 128 bytes (0.00 MiB) are in use: tensors, tapes and optimizers must end before their "
        "memory does\n");
  CHECK(last_words([&] {
          ends_early([](bench& b) {
            memory_plan plan{{{100, category::temporary, "", 0}}, {{0, true}, {0, false}}, 128};
            return new planned_resource(std::move(plan), b.heap, b.s);
          });
        }) ==
        "planned_resource ends while 1 blocks are in use: tensors, tapes and optimizers must end before their memory "
        "does\n");
}
