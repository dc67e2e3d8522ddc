// Parallel loops: who runs what is left to the threads, what is run is not.
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gradus/cpu/parallel.hpp>
#include <gradus/gradus.hpp>

#include "../../support/system.hpp"

namespace gr = gradus;

namespace {

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
};
}  // namespace

TEST_CASE("every task runs once, on any number of threads, loop after loop") {
  world w;
  for (const int n : {1, 2, 3, 7, 16, 5, 2}) {
    gr::set_thread_count(w.stream, n);
    for (const std::size_t tasks : std::initializer_list<std::size_t>{0, 1, 2, 5, 16, 1000}) {
      std::vector<std::atomic<int>> runs(tasks);
      gr::cpu_kit::parallel_tasks(w.ctx, tasks, [&](std::size_t t) { ++runs[t]; });
      bool once = true;
      for (const auto& r : runs) once = once && r == 1;
      CHECK(once);
    }
  }
}

TEST_CASE("what tasks write is there when the loop has ended, thousands of times") {
  world w;
  gr::set_thread_count(w.stream, 4);
  std::vector<std::size_t> sums(8);
  for (std::size_t round = 0; round < 5000; ++round)
    gr::cpu_kit::parallel_tasks(w.ctx, sums.size(), [&](std::size_t t) { sums[t] += round; });
  for (const std::size_t s : sums) CHECK(s == 5000 * 4999 / 2);
}

TEST_CASE("tasks that run at once have scratch of their own, aligned, and kept for the next loop") {
  world w;
  gr::set_thread_count(w.stream, 4);
  for (const std::size_t bytes : std::initializer_list<std::size_t>{1, 100, 100000, 64}) {
    std::atomic<int> shared{0}, unaligned{0};
    gr::cpu_kit::parallel_tasks(w.ctx, 64, bytes, [&](std::size_t t, void* memory) {
      if (reinterpret_cast<std::uintptr_t>(memory) % 64 != 0) ++unaligned;
      auto* const mine = static_cast<unsigned char*>(memory);
      std::memset(mine, static_cast<int>(t), bytes);
      std::this_thread::yield();
      for (std::size_t i = 0; i < bytes; ++i)
        if (mine[i] != t) ++shared;
    });
    CHECK(shared == 0);
    CHECK(unaligned == 0);
  }
}

TEST_CASE("a task may start loops of its own on the same context") {
  world w;
  gr::set_thread_count(w.stream, 3);
  std::atomic<int> runs{0};
  gr::cpu_kit::parallel_tasks(w.ctx, 5, 64, [&](std::size_t t, void* memory) {
    std::memset(memory, static_cast<int>(t), 64);
    gr::cpu_kit::parallel_tasks(w.ctx, 7, 64, [&](std::size_t, void* inner) {
      std::memset(inner, 99, 64);
      ++runs;
    });
    for (int i = 0; i < 64; ++i)
      if (static_cast<unsigned char*>(memory)[i] != t) runs = -1000;
  });
  CHECK(runs == 35);
}

TEST_CASE("what a task throws comes out of the loop, and the next loop runs") {
  world w;
  for (const int n : {1, 4}) {
    gr::set_thread_count(w.stream, n);
    for (int round = 0; round < 20; ++round) {
      std::string what;
      try {
        gr::cpu_kit::parallel_tasks(w.ctx, 100, [](std::size_t t) {
          if (t == 61) throw std::runtime_error("task 61");
        });
      } catch (const std::runtime_error& e) { what = e.what(); }
      CHECK(what == "task 61");
      std::atomic<int> runs{0};
      gr::cpu_kit::parallel_tasks(w.ctx, 100, [&](std::size_t) { ++runs; });
      CHECK(runs == 100);
    }
  }
}

TEST_CASE("the number of threads is a setting of the stream, and a limit") {
  world w, another;
  gr::set_thread_count(w.stream, 3);
  gr::set_thread_count(another.stream, 7);
  CHECK(gr::thread_count(w.stream) == 3);
  gr::set_thread_count(w.stream, 0);
  CHECK(gr::thread_count(w.stream) == 1);
  gr::set_thread_count(w.stream, 5);
  gr::cpu_kit::parallel_tasks(w.ctx, 50, [](std::size_t) {});
  gr::set_thread_count(w.stream, 2);  // three of them have nothing to do from now on
  std::atomic<int> ran[50] = {};
  std::vector<std::thread::id> by(50);
  gr::cpu_kit::parallel_tasks(w.ctx, 50, [&](std::size_t t) { by[t] = std::this_thread::get_id(), ++ran[t]; });
  CHECK(std::set<std::thread::id>(by.begin(), by.end()).size() <= 2);
}

TEST_CASE("OMP_NUM_THREADS is what threads begin with") {
  const char* const before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before == nullptr ? "" : before;
  const auto with = [](const char* value) {
    gradus_test::set_variable("OMP_NUM_THREADS", value);
    gr::stream stream;
    return gr::thread_count(stream);
  };
  CHECK(with("3") == 3);
  CHECK(with("5,2") == 5);
  CHECK(with("nonsense") >= 1);
  CHECK(with("-4") >= 1);
  gradus_test::set_variable("OMP_NUM_THREADS", before == nullptr ? nullptr : kept.c_str());
}

TEST_CASE("several threads run loops at once, each on a context of its own") {
  std::vector<std::thread> users;
  std::atomic<int> runs{0};
  for (int u = 0; u < 4; ++u)
    users.emplace_back([&] {
      world w;
      gr::set_thread_count(w.stream, 3);
      for (int round = 0; round < 200; ++round) gr::cpu_kit::parallel_tasks(w.ctx, 10, [&](std::size_t) { ++runs; });
    });
  for (auto& u : users) u.join();
  CHECK(runs == 4 * 200 * 10);
}

TEST_CASE("an observer runs the loops, on the calling thread") {
  struct : gr::cpu_kit::loop_observer {
    std::vector<std::size_t> tasks;
    void loop(std::size_t count, const gr::cpu_kit::task_runner& run) override {
      tasks.push_back(count);
      for (std::size_t t = 0; t < count; ++t) run(t);
    }
  } seen;
  world w;
  gr::set_thread_count(w.stream, 64);
  w.stream.get<gr::cpu_kit::workers>().observe(&seen);
  std::set<std::thread::id> by;
  gr::cpu_kit::parallel_ranges(w.ctx, 1000, 100,
                               [&](std::size_t, std::size_t) { by.insert(std::this_thread::get_id()); });
  gr::cpu_kit::parallel_tasks(w.ctx, 3, [&](std::size_t) { by.insert(std::this_thread::get_id()); });
  w.stream.get<gr::cpu_kit::workers>().observe(nullptr);
  gr::cpu_kit::parallel_tasks(w.ctx, 2, [](std::size_t) {});
  CHECK(seen.tasks == std::vector<std::size_t>{10, 3});
  CHECK(by == std::set<std::thread::id>{std::this_thread::get_id()});
}
