#include <doctest/doctest.h>

#include <chrono>
#include <gradus/gradus.hpp>
#include <gradus/report/profile.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace gr = gradus;

const gr::profiler::entry* find(const gr::profiler& p, std::string_view name, gr::phase when) {
  for (const auto& e : p.entries())
    if (e.name == name && e.phase == when) return &e;
  return nullptr;
}

}  // namespace

TEST_CASE("a profile counts what runs, by operation and phase, with the work that its shapes say") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::param<gr::on<gr::cpu, gr::fp32>, 8, 4> w;
  w.set(gr::full<float, gr::shape<8, 4>>(ctx, 0.25f));
  gr::profiler profile;
  {
    gr::tape tape(ctx);
    const auto x = gr::full<float, gr::shape<3, 8>>(ctx, 0.5f);
    gr::backward(gr::sum(gr::matmul(tape.watch(x), w)));
    CHECK(profile.entries().empty());
    ctx.observe(&profile);
    for (int i = 0; i < 2; ++i) gr::backward(gr::sum(gr::matmul(tape.watch(x), w)));
    ctx.observe(nullptr);
    gr::backward(gr::sum(gr::matmul(tape.watch(x), w)));
  }
  const auto* forward = find(profile, "matmul", gr::phase::forward);
  REQUIRE(forward != nullptr);
  CHECK(forward->runs == 2);
  CHECK(forward->work.flops == 2 * 2 * 3 * 8 * 4);
  REQUIRE(find(profile, "matmul", gr::phase::backward) != nullptr);
  CHECK(find(profile, "matmul", gr::phase::backward)->runs == 2);
}

TEST_CASE("time within an operation that runs in another counts once") {
  gr::profiler profile;
  const gr::activity outer{"outer", gr::phase::backward, {100, 8, 8}}, inner{"inner", gr::phase::recompute, {50, 4, 4}};
  const auto started = std::chrono::steady_clock::now();
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  for (int i = 0; i < 2; ++i) {
    profile.begin(outer);
    pause();
    profile.begin(inner);
    pause();
    profile.end(inner);
    pause();
    profile.end(outer);
  }
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const auto *o = find(profile, "outer", gr::phase::backward), *i = find(profile, "inner", gr::phase::recompute);
  REQUIRE(o != nullptr);
  REQUIRE(i != nullptr);
  CHECK(o->runs == 2);
  CHECK(i->work == gr::cost{100, 8, 8});
  CHECK(o->seconds >= 0.012);
  CHECK(i->seconds >= 0.006);
  CHECK(o->seconds + i->seconds <= all);
}

TEST_CASE("the table has a row an operation, the slowest first, in 80 columns") {
  gr::profiler profile;
  const auto run = [&](std::string_view name, int ms) {
    const gr::activity what{name, gr::phase::forward, {1000, 10, 10}};
    profile.begin(what);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    profile.end(what);
  };
  run("quick", 1);
  run("slow and of a name that is far too long", 20);
  run("quick", 1);
  profile.add_step(0.05);
  profile.add_step(0.05);
  std::istringstream table(gr::profile_table(profile, {.flops = 1e6, .bytes = 1e3}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(table, line);) {
    CHECK(line.size() <= 80);
    lines.push_back(line);
  }
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].starts_with("2 steps of 50.00 ms, "));
  CHECK(lines[1].starts_with("operation "));
  CHECK(lines[2].starts_with("slow and of a name  forward "));
  CHECK(lines[3].starts_with("quick "));
  CHECK(lines[3].find(" forward        1 ") != std::string::npos);                            // runs a step
  CHECK(lines[4].starts_with("at its best, this machine would take 30.00 ms a step: 60 %"));  // 3 x 20 bytes at 1 kB/s
  const std::string busy = gr::profile_table(profile, {.flops = 1e6, .bytes = 1});  // when its best was measured
  CHECK(busy.find("  > 200 %\n") != std::string::npos);
  CHECK(busy.find("it is busy with other work\n") != std::string::npos);
  CHECK(gr::profile_table(gr::profiler()).starts_with("0 steps of 0.00 ms"));
}
