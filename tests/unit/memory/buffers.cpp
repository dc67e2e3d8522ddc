#include <doctest/doctest.h>

#include <gradus/memory/buffer.hpp>
#include <gradus/memory/host_resource.hpp>
#include <gradus/memory/stats_resource.hpp>
#include <gradus/testing/failing_resource.hpp>
#include <set>
#include <vector>

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
