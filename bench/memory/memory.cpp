// A GPT's training step under schedules of checkpoint regions: what was planned, what is measured.
//
//   bench_memory_MODEL time [--repeat N]   steps of each row in planned memory, alternating with steps that keep
//                                          everything
//   bench_memory_MODEL peak [PART...]      a process for one row, given by its "parts", without a plan: peak bytes as
//                                          asked for, and of the process
// Each prints JSON, one object a line.

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gradus/memory/measured_trace.hpp>

#include <gradus/planning.hpp>

#include "../support/gpt_step.hpp"

namespace gr = gradus;
using bench::median;
using bench::now_ms;

namespace {

template <class D>
using training = bench::training<D, std::uint16_t>;
using on_meta = training<gr::meta>;
using tokens = bench::random_batch<std::uint16_t>;

// A model whose steps lie in planned memory.
struct planned_run {
  gr::stream stream;
  gr::host_resource heap;
  gr::planned_resource region;
  gr::step_trace trace;  // outlives the model, which gives memory back through `traced`
  gr::trace_resource traced;
  gr::context<gr::cpu> persistent;
  gr::context<gr::cpu> transient;
  training<gr::cpu> t;

  explicit planned_run(const gr::training_options& o)
      : region(gr::make_plan(gr::trace_step<on_meta>(o)), heap, stream),
        traced(region),
        persistent(stream, heap),
        transient(stream, traced),
        t(persistent, transient, o) {}
  double step(const tokens& data, gr::time_table* learn = nullptr) {
    if (learn != nullptr) {
      transient.observe(&traced);
      persistent.observe(&traced);
      traced.start(trace);
    }
    const double start = now_ms();
    t.add_batch(data.inputs.data(), data.targets.data());
    t.update();
    const double took = now_ms() - start;
    if (learn != nullptr) {
      traced.finish();
      transient.observe(nullptr);
      persistent.observe(nullptr);
      learn->add(trace);
    }
    return took;
  }
};

struct row {
  std::string name;
  gr::region_schedule regions;
};

// The rows that need no budget, then those that do, from times measured here.
std::vector<row> fixed_rows() {
  const auto blocks = gr::survey_blocks<on_meta>(gr::training_options{});
  return {{"none", {}},
          {"blocks", gr::every_block(blocks, gr::save_none{})},
          {"attention", gr::every_block(blocks, gr::save_all_but<gr::op::attention>{})},
          {"matmul", gr::every_block(blocks, gr::save_only<gr::op::matmul>{})}};
}
// What a step takes where its blocks are placed.
std::size_t placed_bytes(const gr::region_schedule& regions) {
  gr::training_options o;
  o.regions = regions;
  const gr::step_trace trace = gr::trace_step<on_meta>(o);
  return trace.live_before + gr::place(trace).bytes;
}
std::vector<row> scheduled_rows(const gr::time_table& times) {
  const gr::recompute_scheduler<on_meta, gr::training_options> search(gr::training_options{}, times);
  const std::size_t least = search.least_budget(), most = placed_bytes({});
  std::vector<row> rows;
  const auto add = [&](const std::string& name, std::size_t budget) {
    const gr::scheduled_step s = search.within(budget);
    std::fprintf(stderr, "%s, budget %s:\n%s", name.c_str(), gr::format_bytes(budget).c_str(), s.description.c_str());
    rows.push_back({name, s.regions});
  };
  for (const std::size_t percent : {75u, 50u, 25u})
    add("budget" + std::to_string(percent), least + (most - least) * percent / 100);
  add("as-blocks", placed_bytes(gr::region_schedule::every_block(bench::config.layers)));
  return rows;
}

// A schedule as words of a command line, and back.
void print_parts(const std::vector<gr::chain_part>& parts) {
  for (const gr::chain_part& p : parts) {
    std::printf("%s\"%zu,%zu,%d,%" PRIu64 "\"", &p == parts.data() ? "" : ", ", p.first, p.last, p.region ? 1 : 0,
                p.keep);
    if (p.inner.empty()) continue;
    std::printf(", \"(\", ");
    print_parts(p.inner);
    std::printf(", \")\"");
  }
}
std::vector<gr::chain_part> read_parts(char**& at, char** end) {
  std::vector<gr::chain_part> parts;
  while (at != end && std::strcmp(*at, ")") != 0) {
    if (std::strcmp(*at, "(") == 0) {
      parts.back().inner = read_parts(++at, end);
      ++at;
      continue;
    }
    gr::chain_part p;
    int region = 0;
    if (std::sscanf(*at++, "%zu,%zu,%d,%" SCNu64, &p.first, &p.last, &region, &p.keep) != 4) std::exit(2);
    p.region = region != 0;
    parts.push_back(p);
  }
  return parts;
}

int time_rows(int repeat) {
  const tokens data;
  std::vector<row> rows = fixed_rows();
  gr::training_options plain;
  planned_run none(plain);
  gr::time_table times;
  none.step(data);
  for (int i = 0; i < 3; ++i) none.step(data, &times);
  for (row& r : scheduled_rows(times)) rows.push_back(std::move(r));
  for (const row& r : rows) {
    gr::training_options o;
    o.regions = r.regions;
    const gr::step_trace trace = gr::trace_step<on_meta>(o);
    const gr::step_summary plan = gr::summarize(trace);
    gr::time_table here;
    std::vector<double> row_ms, none_ms;
    {
      planned_run run(o);
      run.step(data);
      for (int i = 0; i < repeat; ++i) {
        none_ms.push_back(none.step(data, &here));
        row_ms.push_back(run.step(data));
      }
    }
    const auto bytes = [&](gr::category c) { return plan.at_peak_of(c); };
    std::printf(
        "{\"row\": \"%s\", \"planned_bytes\": %zu, \"persistent_bytes\": %zu, \"workspace_bytes\": %zu, "
        "\"activation_bytes\": %zu, \"gradient_bytes\": %zu, \"temporary_bytes\": %zu, \"saved_bytes\": %zu, "
        "\"recomputed_gflop\": %.3f, \"predicted_ms\": %.3f, \"measured_ms\": %.3f, \"none_ms\": %.3f, \"parts\": [",
        r.name.c_str(), plan.peak_bytes, plan.persistent_bytes, gr::make_plan(trace).bytes,
        bytes(gr::category::activation), bytes(gr::category::gradient), bytes(gr::category::temporary),
        plan.saved_bytes, static_cast<double>(plan.recomputed_flops()) * 1e-9, here.seconds(trace) * 1e3,
        median(row_ms), median(none_ms));
    print_parts(r.regions.parts);
    std::printf("]}\n");
    std::fflush(stdout);
  }
  return 0;
}

int peak_of(char** parts, char** end) {
  const tokens data;
  gr::training_options o;
  o.regions.parts = read_parts(parts, end);
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context persistent{stream, stats};
  gr::context transient{stream, stats};
  training<gr::cpu> t(persistent, transient, o);
  std::vector<float> losses;
  for (int i = 0; i < 2; ++i) {
    if (i == 1) stats.reset_peak();
    losses.push_back(t.add_batch(data.inputs.data(), data.targets.data()));
    t.update();
  }
  std::printf("{\"measured_bytes\": %zu, \"process_bytes\": %.0f, \"loss\": %.9g}\n", stats.all().peak,
              bench::status_bytes("VmHWM"), static_cast<double>(losses.back()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "time" && (argc == 2 || (argc == 4 && std::strcmp(argv[2], "--repeat") == 0)))
      return time_rows(argc == 4 ? std::max(1, std::atoi(argv[3])) : 3);
    if (what == "peak") return peak_of(argv + 2, argv + argc);
    std::fprintf(stderr, "usage: %s time [--repeat N] | peak [PART...]\n", argv[0]);
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_memory: %s\n", e.what());
    return 1;
  }
}
