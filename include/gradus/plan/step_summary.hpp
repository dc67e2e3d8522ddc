#pragma once
// What a training step will hold, before anything is allocated: the step itself, run on the accounting device.

#include <array>
#include <cstddef>
#include <string_view>

#include "../memory/accounting.hpp"

namespace gradus {

/// How often something ran in one phase of a step, and what that took.
struct phase_total {
  std::size_t runs = 0;
  cost work;
};

/// One operation's share of a step.
struct op_total {
  std::string_view name;
  phase_total phases[phase_count] = {};
  std::size_t saved_bytes =
      0;  ///< its part of step_summary::saved_bytes: of what it was the first to keep for backward

  constexpr const phase_total& in(phase p) const { return phases[static_cast<std::size_t>(p)]; }
};

/// A step's memory and work, of fixed size, so that it can be a constexpr variable.
struct step_summary {
  static constexpr std::size_t max_ops = 40;

  std::size_t peak_bytes = 0;                         ///< most bytes at once: the step's and what is persistent
  std::size_t persistent_bytes = 0;                   ///< there before and after: parameters, optimizer state
  std::array<std::size_t, category_count> at_peak{};  ///< what the peak is made of
  std::array<std::size_t, category_count> peak_by{};  ///< most bytes of each category, whenever that was
  std::size_t requests = 0;                           ///< blocks asked for in the step
  std::size_t peak_request = 0;                       ///< the request, from 0, that reached the peak first
  std::string_view peak_op;                           ///< the operation that made it
  phase peak_phase = phase::outside;
  std::size_t saved_bytes = 0;  ///< most bytes at once of what forward keeps for backward
  phase_total phases[phase_count] = {};
  op_total ops[max_ops] = {};  ///< the first `op_count`, in the order of their first run; what is beyond is in the last
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

// Whether a block is kept from forward for backward. What is computed again waits for no backward.
constexpr bool is_saved(const block_life& b) { return !b.saved_by.empty() && b.phase != phase::recompute; }

// Sums up the saved blocks of the moment when they are the most bytes.
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
  for (const op_span& span : trace.ops) {
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

/// Everything that `work(training)` does to memory, in order. `Training` is constructed from two contexts of the
/// accounting device (`Training::device` where it says so, `meta` otherwise) and `args`: one for what is persistent
/// (parameters, optimizer state), one for what is transient: what work asks for and gives back.
/// What it leaves behind (the optimizer's state, made by the first step) counts as persistent.
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

/// The trace of `training.step()`.
template <class Training, class... Args>
constexpr step_trace trace_step(const Args&... args) {
  return trace<Training>([](Training& training) { training.step(); }, args...);
}

/// What a steady step of `Training` takes (see trace_step); usable in constant expressions:
/// `constexpr auto summary = gr::summarize_step<training>(); static_assert(summary.peak_bytes < budget);`
template <class Training, class... Args>
constexpr step_summary summarize_step(const Args&... args) {
  return summarize(trace_step<Training>(args...));
}

}  // namespace gradus
