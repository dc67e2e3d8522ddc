// A GPT trained in planned memory: planned peak = measured peak, fixed addresses, no heap, the same bits; and what
// happens when a step departs from its plan.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"
#include "heap.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config odd{3, 3, 39, 13, 61};
constexpr gr::index_t batch = 5;
using on_cpu = gpt::training<gr::cpu, odd, batch>;
using on_meta = gpt::training<gr::meta, odd, batch>;

struct data {
  std::vector<std::uint8_t> inputs, targets;
  explicit data(std::uint32_t step) : inputs(batch * odd.context), targets(inputs.size()) {
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      const auto w = gr::random_key{.seed = 3, .step = step}.words(i);
      inputs[i] = static_cast<std::uint8_t>(w[0] % odd.vocabulary);
      targets[i] = static_cast<std::uint8_t>(w[1] % odd.vocabulary);
    }
  }
};

template <class T>
float train_step(T& t, const data& d, int batches) {
  float loss = 0;
  for (int i = 0; i < batches; ++i) loss += t.add_batch(d.inputs.data(), d.targets.data());
  t.update();
  return loss;
}

std::vector<std::vector<float>> weights(const on_cpu& t) {
  std::vector<std::vector<float>> all;
  gr::visit_params(t.net, [&](const auto& p) { all.push_back(gr::to_host(p.value())); });
  return all;
}

// The largest sum of live blocks, each in whole units of the alignment.
std::size_t largest_sum(const gr::step_trace& trace) {
  std::size_t live = 0;
  std::size_t most = 0;
  for (const gr::memory_event& e : trace.events) {
    const std::size_t bytes = gr::detail::aligned_size(trace, e.block);
    live = e.begins ? live + bytes : live - bytes;
    most = std::max(most, live);
  }
  return most;
}

// Steps of every kind: plain, accumulated, with dropout, under schedules of regions.
std::vector<gr::training_options> kinds() {
  std::vector<gr::training_options> all(6);
  all[1] = {.dropout = 0.1, .accumulate = 3};
  all[2] = {.dropout = 0.1, .regions = gr::region_schedule::every_block(odd.layers)};
  all[3] = {.clip = 0, .regions = gr::region_schedule::every_block(odd.layers, 0b10110)};
  all[4].regions.parts = {{0, 1, true, 0, {{0, 0, true, 5}, {1, 1, false}}}, {2, 2, false}};
  all[5] = {.accumulate = 2, .regions = all[4].regions};
  return all;
}

}  // namespace

TEST_CASE("the planned peak of a training step is the measured one, to the byte, and so is every request on the way") {
  for (const gr::training_options& o : kinds()) {
    const gr::step_summary plan = gr::summarize_step<on_meta>(o);
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource stats(heap);
    gr::context persistent{stream, stats};
    gr::context transient{stream, stats};
    on_cpu t(persistent, transient, o);
    train_step(t, data(0), o.accumulate);
    stats.reset_peak();
    const std::size_t before = stats.all().allocations;
    train_step(t, data(1), o.accumulate);
    CHECK(stats.all().peak == plan.peak_bytes);
    CHECK(stats.all().live == plan.persistent_bytes);
    CHECK(stats.all().allocations - before == plan.requests);
    for (std::size_t c = 0; c < gr::category_count; ++c) {
      const auto what = static_cast<gr::category>(c);
      CHECK(stats.at_peak(what) == plan.at_peak_of(what));
      CHECK(stats.of(what).peak == plan.peak_by[c]);
    }
  }
}

TEST_CASE("training in planned memory gives the same bits, and the workspace is within 2 % of the least there can be") {
  for (const gr::training_options& o : kinds()) {
    const gr::step_trace trace = gr::trace_step<on_meta>(o);
    gr::stream stream;
    gr::host_resource heap;
    gr::planned_resource planned(gr::make_plan(trace), heap, stream);
    CHECK(static_cast<double>(planned.bytes()) <= 1.02 * static_cast<double>(largest_sum(trace)));
    gr::context persistent{stream, heap};
    gr::context transient{stream, planned};
    gr::context loose{stream, heap};
    on_cpu a(persistent, transient, o);
    on_cpu b(persistent, loose, o);
    for (std::uint32_t step = 0; step < 3; ++step) {
      const data d(step);
      CHECK(train_step(a, d, o.accumulate) == train_step(b, d, o.accumulate));
      planned.check();
      CHECK(planned.live_blocks() == 0);
    }
    CHECK(weights(a) == weights(b));
  }
}

TEST_CASE("a planned step asks the heap for nothing, on one thread and on two") {
  if (!GRADUS_COUNTS_HEAP) {
    MESSAGE("skipped: this build has a heap of its own");
    return;
  }
  for (const int threads : {1, 2}) {
    for (const gr::training_options& o : kinds()) {
      gr::stream stream;
      gr::set_thread_count(stream, threads);
      gr::host_resource heap;
      gr::planned_resource planned(gr::make_plan(gr::trace_step<on_meta>(o)), heap, stream);
      gr::context persistent{stream, heap};
      gr::context transient{stream, planned};
      on_cpu t(persistent, transient, o);
      const data d(0);
      train_step(t, d, o.accumulate);
      train_step(t, d, o.accumulate);
      const std::size_t before = heap_requests();
      for (int i = 0; i < 3; ++i) train_step(t, d, o.accumulate);
      CHECK(heap_requests() - before == 0);
    }
  }
  std::vector<int> grown(1000);
  const std::size_t before = heap_requests();
  grown.reserve(100000);
  CHECK(heap_requests() > before);  // the count counts
}

TEST_CASE("a step that is not the one planned is caught at once, and the right one works again") {
  gr::training_options o;
  gr::stream stream;
  gr::host_resource heap;
  gr::planned_resource planned(gr::make_plan(gr::trace_step<on_meta>(o)), heap, stream);
  gr::context persistent{stream, heap};
  gr::context transient{stream, planned};
  on_cpu t(persistent, transient, o);
  const data d(0);
  train_step(t, d, 1);
  const auto before = weights(t);
  t.net.regions = gr::region_schedule::every_block(odd.layers);
  std::string message;
  try {
    train_step(t, d, 1);
  } catch (const gr::error& e) { message = e.what(); }
  CHECK(message.starts_with("planned memory: "));
  CHECK(message.find("make the plan again for this step") != std::string::npos);
  CHECK(weights(t) == before);
  t.net.regions = {};
  t.abandon();
  train_step(t, d, 1);
  planned.check();
}
