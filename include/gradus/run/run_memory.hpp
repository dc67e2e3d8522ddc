#pragma once
// The memory of a training run: one context for parameters and optimizer state, one for what a step allocates.

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "../memory/activity.hpp"
#include "../memory/context.hpp"
#include "../memory/measured_trace.hpp"
#include "../memory/memory_plan.hpp"
#include "../memory/planned_resource.hpp"
#include "../memory/pool_resource.hpp"
#include "../memory/stats_resource.hpp"

namespace gradus {

namespace detail {

// Forwards every notification to two observers, each of which may be null.
class observer_pair final : public observer {
 public:
  observer *first = nullptr, *second = nullptr;

  void begin(const activity& what) override {
    notify([&](observer& o) { o.begin(what); });
  }
  void end(const activity& what) override {
    notify([&](observer& o) { o.end(what); });
  }
  void computed(const activity& what, const computed_values& values) override {
    notify([&](observer& o) { o.computed(what, values); });
  }
  void saved(std::string_view by, const memory_request& request) override {
    notify([&](observer& o) { o.saved(by, request); });
  }

 private:
  void notify(const auto& call) {
    if (first != nullptr) call(*first);
    if (second != nullptr) call(*second);
  }
};

}  // namespace detail

/// Two contexts on one stream: `persistent` allocates from `heap`; `transient`, for what a step allocates and returns,
/// from the workspace of a plan, or from a pool if there is no plan. Both can be traced for a memory report.
template <class D>
class run_memory {
  using stream_type = typename D::stream_type;

  // Destroyed last: if a traced step throws, the model still returns its memory through the trace.
  step_trace measured_;
  basic_stats_resource<stream_type> heap_;
  basic_pool_resource<stream_type> pool_;
  std::optional<basic_planned_resource<stream_type>> planned_;
  basic_trace_resource<stream_type> traced_;
  detail::observer_pair tracing_;

 public:
  context<D> persistent;  ///< for parameters and optimizer state
  context<D> transient;   ///< for steps
  context<D> pooled;      ///< from the pool: for work after the steps

  /// Plan 0 places what a step allocates until use() chooses another; without plans, the pool allocates it.
  /// start_trace() needs `traceable`. `on` and `heap` must outlive this. Throws out_of_memory.
  run_memory(stream_type& on, basic_resource<stream_type>& heap, std::vector<memory_plan> plans = {},
             bool traceable = false)
      : heap_(heap),
        pool_(heap),
        traced_(make_steps(std::move(plans), heap, on)),
        persistent(on, heap_),
        transient(on, traceable ? static_cast<basic_resource<stream_type>&>(traced_) : steps()),
        pooled(on, pool_) {}

  /// Chooses the plan of the steps from now on.
  void use(std::size_t plan) {
    if (planned_) planned_->use(plan);
  }
  /// Returns the plans' workspace to the heap. No step may follow.
  void free_workspace() { planned_.reset(); }

  /// Notifies `who` of every operation from now on; null ends that.
  void observe(observer* who) {
    transient.observe(who);
    persistent.observe(who);
  }
  /// Traces what the steps allocate until finish_trace(). `also` (unless null) is notified of every operation, too.
  void start_trace(observer* also = nullptr) {
    traced_.start(measured_);
    tracing_.first = &traced_;
    tracing_.second = also;
    observe(&tracing_);
  }
  /// Ends the trace, and returns it with the persistent memory counted as live from its beginning.
  const step_trace& finish_trace() {
    traced_.finish();
    observe(nullptr);
    for (std::size_t c = 0; c < category_count; ++c) {
      const std::size_t bytes = heap_.of(static_cast<category>(c)).live;
      measured_.live_before_by[c] += bytes;
      measured_.live_before += bytes;
    }
    return measured_;
  }

 private:
  basic_resource<stream_type>& steps() {
    if (planned_) return *planned_;
    return pool_;
  }
  basic_resource<stream_type>& make_steps(std::vector<memory_plan> plans, basic_resource<stream_type>& heap,
                                          stream_type& on) {
    if (!plans.empty()) planned_.emplace(std::move(plans), heap, on);
    return steps();
  }
};

}  // namespace gradus
