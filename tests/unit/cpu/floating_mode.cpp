#include <doctest/doctest.h>

#include <atomic>
#include <cfenv>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <gradus/cpu/parallel.hpp>
#include <gradus/gradus.hpp>

#include "../../support/floating_modes.hpp"

namespace gr = gradus;

namespace {

using gradus_test::marks_of_mode;
using gradus_test::unusual_modes;
using gradus_test::usual_mode_again;

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  explicit world(int threads) { gr::set_thread_count(stream, threads); }
};

using marks = decltype(marks_of_mode());

// The marks of all threads of a loop: each task waits until every thread has one.
std::vector<marks> marks_of_threads(world& w) {
  std::vector<marks> found(static_cast<std::size_t>(gr::thread_count(w.stream)));
  std::atomic<std::size_t> begun{0};
  gr::cpu_kit::parallel_tasks(w.ctx, found.size(), [&](std::size_t task) {
    found[task] = marks_of_mode();
    for (++begun; begun < found.size();) std::this_thread::yield();
  });
  return found;
}

// Bits of an elementwise product with subnormal results, of a matrix product and of a sum.
std::vector<float> results_on(int threads, void (*set_mode)()) {
  world w(threads);
  marks_of_threads(w);  // the threads begin in the usual mode
  constexpr gr::index_t n = 1 << 17;
  const auto x = gr::uniform<float, gr::shape<n>>(w.ctx, {.seed = 1});
  const usual_mode_again after;
  set_mode();
  const auto y = gr::to_host(x * gr::full<float, gr::shape<n>>(w.ctx, 0x1p-127f));
  const auto m = gr::reshape<256, 512>(x);
  const auto z = gr::to_host(gr::matmul(m, gr::reshape<512, 256>(x)));
  std::vector<float> all(y.begin(), y.end());
  all.insert(all.end(), z.begin(), z.end());
  all.push_back(gr::item(gr::sum(x)));
  return all;
}

}  // namespace

TEST_CASE("all threads of a loop compute in their caller's floating-point mode, whatever theirs was") {
  const marks usual = marks_of_mode();
  for (const int threads : {1, 2, 3}) {
    world w(threads);
    const std::vector<marks> of_all(static_cast<std::size_t>(threads), usual);
    CHECK(marks_of_threads(w) == of_all);
    for (const auto set_mode : unusual_modes()) {
      {
        const usual_mode_again after;
        set_mode();
        const marks mine = marks_of_mode();
        CHECK(mine != usual);
        for (const marks& m : marks_of_threads(w)) CHECK(m == mine);
      }
      CHECK(marks_of_threads(w) == of_all);
    }
  }
}

TEST_CASE("results have the same bits on 1, 2 and 3 threads in each floating-point mode") {
  for (const auto set_mode : unusual_modes()) {
    const auto one = results_on(1, set_mode);
    for (const int threads : {2, 3}) {
      const auto several = results_on(threads, set_mode);
      REQUIRE(several.size() == one.size());
      CHECK(std::memcmp(several.data(), one.data(), one.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("a mode for a scope ends with it, and a thread keeps the exceptions that it has met") {
  const marks usual = marks_of_mode();
  for (const auto set_mode : unusual_modes()) {
    const usual_mode_again after;
    const gr::platform::floating_mode before;
    set_mode();
    const marks mine = marks_of_mode();
    {
      const gr::platform::floating_mode_scope same(before);
      CHECK(marks_of_mode() == usual);
    }
    CHECK(std::fetestexcept(FE_INEXACT) != 0);
    CHECK(marks_of_mode() == mine);
  }
}
