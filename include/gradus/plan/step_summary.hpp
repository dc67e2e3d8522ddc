#pragma once
// Traces a training step on the meta device and sums it up: memory and work, before anything is allocated.

#include <array>
#include <cstddef>
#include <string_view>

#include "../memory/accounting.hpp"

namespace gradus {

/// Runs and work in one phase of a step.
struct phase_total {
  std::size_t runs = 0;
  cost work;
};

/// One operation's share of a step.
struct op_total {
  std::string_view name;
  phase_total phases[phase_count] = {};
  std::size_t saved_bytes = 0;  ///< its share of step_summary::saved_bytes: blocks that it was the first to save

  constexpr const phase_total& in(phase p) const { return phases[static_cast<std::size_t>(p)]; }
};

/// A step's memory and work. Its size is fixed, so that it can be a constexpr variable.
struct step_summary {
  static constexpr std::size_t max_ops = 40;

  std::size_t peak_bytes = 0;                         ///< peak of live bytes, persistent ones included
  std::size_t persistent_bytes = 0;                   ///< live before and after: parameters, optimizer state
  std::array<std::size_t, category_count> at_peak{};  ///< the peak by category
  std::array<std::size_t, category_count> peak_by{};  ///< the peak of each category alone
  std::size_t requests = 0;                           ///< blocks requested in the step
  std::size_t peak_request = 0;                       ///< number of the request, from 0, that reached the peak first
  std::string_view peak_op;                           ///< the operation that made it
  phase peak_phase = phase::outside;
  std::size_t saved_bytes = 0;  ///< peak of the bytes saved for backward
  std::size_t host_bytes = 0;   ///< peak of the bytes offloaded to host memory, which no other number counts
  phase_total phases[phase_count] = {};
  op_total ops[max_ops] = {};  ///< the first `op_count`, in the order of their first run; the last holds all others
  std::size_t op_count = 0;

  constexpr std::size_t at_peak_of(category c) const { return at_peak[static_cast<std::size_t>(c)]; }
  constexpr const phase_total& in(phase p) const { return phases[static_cast<std::size_t>(p)]; }
  /// Arithmetic that only recomputation adds.
  constexpr std::size_t recomputed_flops() const { return in(phase::recompute).work.flops; }
};

namespace detail {

constexpr op_total& total_of(step_summary& summary, std::string_view name) {
  for (std::size_t i = 0; i < summary.op_count; ++i)
    if (summary.ops[i].name == name) return summary.ops[i];
  if (summary.op_count == step_summary::max_ops) return summary.ops[step_summary::max_ops - 1];
  summary.ops[summary.op_count].name = name;
  return summary.ops[summary.op_count++];
}

// Whether forward saved the block for backward. Recomputed blocks do not count: their backward follows at once.
constexpr bool is_saved(const block_life& b) { return !b.saved_by.empty() && b.phase != phase::recompute; }

// Adds up the saved blocks at the event where they peak.
constexpr void add_saved(step_summary& summary, const step_trace& trace) {
  std::size_t live = 0;
  std::size_t when = 0;  // the event
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    const block_life& b = trace.blocks[trace.events[e].block];
    if (!is_saved(b)) continue;
    live = trace.events[e].begins ? live + b.bytes : live - b.bytes;
    if (live <= summary.saved_bytes) continue;
    summary.saved_bytes = live;
    when = e;
  }
  for (const block_life& b : trace.blocks)
    if (is_saved(b) && b.from <= when && when < b.until) total_of(summary, b.saved_by).saved_bytes += b.bytes;
}

}  // namespace detail

/// The totals of a trace.
constexpr step_summary summarize(const step_trace& trace) {
  step_summary summary;
  summary.persistent_bytes = trace.live_before;
  summary.requests = trace.blocks.size();
  std::size_t live = trace.live_before;
  std::array<std::size_t, category_count> live_by{};
  for (std::size_t c = 0; c < category_count; ++c) live_by[c] = trace.live_before_by[c];
  summary.peak_bytes = live;
  summary.at_peak = summary.peak_by = live_by;
  for (const memory_event& e : trace.events) {
    const block_life& b = trace.blocks[e.block];
    std::size_t& by = live_by[static_cast<std::size_t>(b.what)];
    if (!e.begins) {
      live -= b.bytes;
      by -= b.bytes;
      continue;
    }
    live += b.bytes;
    by += b.bytes;
    std::size_t& most = summary.peak_by[static_cast<std::size_t>(b.what)];
    if (by > most) most = by;
    if (live > summary.peak_bytes) {
      summary.peak_bytes = live;
      summary.at_peak = live_by;
      summary.peak_request = e.block;
      summary.peak_op = b.source;
      summary.peak_phase = b.phase;
    }
  }
  std::size_t offloaded = 0;
  for (const op_span& span : trace.ops) {
    if (span.what.name == offload_name) offloaded += span.what.work.bytes_read;
    if (span.what.name == fetch_name) offloaded -= span.what.work.bytes_read;
    if (offloaded > summary.host_bytes) summary.host_bytes = offloaded;
    const auto when = static_cast<std::size_t>(span.what.phase);
    op_total& op = detail::total_of(summary, span.what.name);
    for (phase_total* total : {&op.phases[when], &summary.phases[when]}) {
      ++total->runs;
      total->work = total->work + span.what.work;
    }
  }
  detail::add_saved(summary, trace);
  return summary;
}

namespace detail {
template <class Training>
struct planned_device {
  using type = meta;
};
template <class Training>
  requires requires { typename Training::device; }
struct planned_device<Training> {
  using type = typename Training::device;
};
}  // namespace detail

/// Traces `work(training)`. `Training` is constructed from two contexts of the device `Training::device` (default:
/// `meta`) and `args`: one context for persistent memory (parameters, optimizer state), one for transient memory.
/// Blocks that outlive the work, such as the optimizer's state after the first step, count as persistent.
template <class Training, class Work, class... Args>
constexpr step_trace trace(const Work& work, const Args&... args) {
  meta_stream stream;
  accounting account;
  using device = typename detail::planned_device<Training>::type;
  context<device> persistent{stream, account};
  context<device> transient{stream, account};
  step_trace trace;
  {
    Training training(persistent, transient, args...);
    persistent.observe(&account);
    transient.observe(&account);
    account.start(trace);
    work(training);
    account.finish();
    trace.alignment = device::alignment;
  }
  return trace;
}

/// Traces `training.step()`.
template <class Training, class... Args>
constexpr step_trace trace_step(const Args&... args) {
  return trace<Training>([](Training& training) { training.step(); }, args...);
}

/// The memory and work of a steady step of `Training` (see trace_step). Usable in constant expressions:
/// `constexpr auto summary = gr::summarize_step<training>(); static_assert(summary.peak_bytes < budget);`
template <class Training, class... Args>
constexpr step_summary summarize_step(const Args&... args) {
  return summarize(trace_step<Training>(args...));
}

}  // namespace gradus
