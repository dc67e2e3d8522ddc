#pragma once
// The memory of a run, on the device that trains: what stays from step to step comes from the heap, what a step needs
// lies where the plan says.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gradus/memory/measured_trace.hpp>

#include "memory.hpp"
#include "speed.hpp"

namespace gpt {

/// Tells two observers, each of which may be null.
class observer_pair final : public gr::observer {
  gr::observer *first_ = nullptr, *second_ = nullptr;

  void tell(const auto& what) {
    if (first_ != nullptr) what(*first_);
    if (second_ != nullptr) what(*second_);
  }

 public:
  void set(gr::observer* first, gr::observer* second) {
    first_ = first;
    second_ = second;
  }
  void begin(const gr::activity& what) override {
    tell([&](gr::observer& o) { o.begin(what); });
  }
  void end(const gr::activity& what) override {
    tell([&](gr::observer& o) { o.end(what); });
  }
  void computed(const gr::activity& what, const gr::computed_values& values) override {
    tell([&](gr::observer& o) { o.computed(what, values); });
  }
  void saved(std::string_view by, const gr::memory_request& request) override {
    tell([&](gr::observer& o) { o.saved(by, request); });
  }
};

class run_memory {
  gr::step_trace measured_;  // ends last: if the traced step throws, the model still gives its memory back through it
  stream stream_;
  device_heap heap_;
  gr::basic_stats_resource<stream> kept_;
  std::optional<gr::basic_planned_resource<stream>> planned_;
  gr::basic_pool_resource<stream> pool_;
  gr::basic_trace_resource<stream> traced_;
  observer_pair tracing_;

 public:
  gr::context<device> persistent;  ///< of parameters and optimizer state
  gr::context<device> transient;   ///< of what a step asks for and gives back
  gr::context<device> after;       ///< of what comes when no step does any more

  run_memory(const options& o, const chosen_memory& chosen)
      : kept_(heap_),
        planned_(std::in_place, chosen.plans, heap_, stream_),
        pool_(heap_),
        traced_(*planned_),
        persistent(stream_, kept_),
        transient(stream_, o.memory_report.empty() ? static_cast<gr::basic_resource<stream>&>(*planned_) : traced_),
        after(stream_, pool_) {
    set_threads(stream_, o.threads);
    if (!o.tune_products.empty())
      for (gr::context<device>* ctx : {&transient, &persistent}) tune(*ctx, o.tune_products);
  }

  /// What the steps run on: "2 threads", or the name of a GPU.
  std::string machine() { return machine_name(stream_); }
  /// Most memory that was in use at once, in MiB: of the process, or of the GPU.
  double peak_mib() const { return gpt::peak_mib(heap_); }
  /// Returns when what was submitted has run.
  void wait() const { stream_.synchronize(); }
  /// Says which plan comes next.
  void use(planned_work work) { planned_->use(work); }
  /// No step comes any more: gives the workspace back, so that there is room for what comes after.
  void free_workspace() { planned_.reset(); }
  /// Tells `who` of every operation from now on; null ends that.
  void observe(gr::observer* who) {
    transient.observe(who);
    persistent.observe(who);
  }
  /// Writes down what happens until finish_trace(). `also`, unless null, is told of every operation as well.
  void start_trace(gr::observer* also) {
    traced_.start(measured_);
    tracing_.set(&traced_, also);
    observe(&tracing_);
  }
  const gr::step_trace& finish_trace() {
    traced_.finish();
    observe(nullptr);
    for (std::size_t c = 0; c < gr::category_count; ++c) {
      const std::size_t bytes = kept_.of(static_cast<gr::category>(c)).live;
      measured_.live_before_by[c] += bytes;
      measured_.live_before += bytes;
    }
    return measured_;
  }
};

}  // namespace gpt
