#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../io/atomic_file.hpp"
#include "perfetto.hpp"
#include "run_log.hpp"
#include "trace_times.hpp"

namespace gradus {

namespace detail {

// The events of one process of a Chrome trace: its names, the operations as spans, live bytes as counters.
GRADUS_IMPL void append_process(std::string& out, int process, std::string_view name, const step_trace& trace) {
  const trace_times times(trace);
  // Whole nanoseconds, so that rounding keeps spans nested.
  const auto us = [](long long ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%lld.%03lld", ns / 1000, ns % 1000);
    return std::string(text);
  };
  const auto ns = [](double t) { return std::llround(t * 1000); };
  const std::string in = "\"pid\":" + std::to_string(process) + ",\"tid\":1";
  const auto named = [&](const char* what, std::string_view value) {
    out += "{\"ph\":\"M\"," + in + ",\"name\":\"" + what + "\",\"args\":{\"name\":" + json_string(value) + "}},\n";
  };
  named("process_name", name);
  named("thread_name", "operations");
  out += "{\"ph\":\"M\"," + in +
         ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":" + std::to_string(process) + "}},\n";

  // Attributed as in summarize(): to the first operation that keeps it, which is the first of its name from the request
  // on. A region's arguments have no span.
  std::vector<std::size_t> saved(trace.ops.size(), 0);
  for (const block_life& b : trace.blocks) {
    if (b.saved_by.empty() || b.phase == phase::recompute) continue;
    const auto keeps = [&](const op_span& op) { return op.what.name == b.saved_by && op.last_event > b.from; };
    const auto by = std::find_if(trace.ops.begin(), trace.ops.end(), keeps);
    if (by != trace.ops.end()) saved[static_cast<std::size_t>(by - trace.ops.begin())] += b.bytes;
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const activity& what = trace.ops[i].what;
    const long long begin = ns(times.op_begin[i]);
    out += "{\"ph\":\"X\"," + in + ",\"ts\":" + us(begin) + ",\"dur\":" + us(ns(times.op_end[i]) - begin) +
           ",\"name\":" + json_string(what.name) + ",\"cat\":" + json_string(phase_name(what.phase)) +
           ",\"args\":{\"flops\":" + std::to_string(what.work.flops) +
           ",\"bytes\":" + std::to_string(what.work.bytes()) + ",\"saved\":" + std::to_string(saved[i]) + "}},\n";
  }

  std::array<std::size_t, category_count> live{};
  for (std::size_t c = 0; c < category_count; ++c) live[c] = trace.live_before_by[c];
  const auto count = [&](double at) {
    const std::string counter = "{\"ph\":\"C\"," + in + ",\"ts\":" + us(ns(at)) + ",\"name\":\"live bytes";
    std::size_t all = 0;
    out += counter + "\",\"args\":{";
    for (std::size_t c = 0; c < category_count; ++c) {
      if (c > 0) out += ',';
      out += json_string(category_name(static_cast<category>(c))) + ":" + std::to_string(live[c]);
      all += live[c];
    }
    // A counter of its own: viewers stack the series of one.
    out += "}},\n" + counter + ", all\",\"args\":{\"all\":" + std::to_string(all) + "}},\n";
  };
  count(0);
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    const block_life& b = trace.blocks[trace.events[e].block];
    std::size_t& by = live[static_cast<std::size_t>(b.what)];
    by = trace.events[e].begins ? by + b.bytes : by - b.bytes;
    count(times.event[e]);
  }
}

}  // namespace detail

GRADUS_IMPL void write_perfetto(const std::filesystem::path& path, const step_trace& planned,
                                const step_trace* measured) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  detail::append_process(out, 1, "planned", planned);
  if (measured != nullptr) detail::append_process(out, 2, "measured", *measured);
  out.erase(out.size() - 2);  // the last comma
  write_file_atomically(path, out + "\n]}\n");
}

}  // namespace gradus
