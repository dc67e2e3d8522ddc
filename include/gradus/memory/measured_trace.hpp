#pragma once
// A memory resource that traces a real step, with times.

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "diagnostics.hpp"
#include "resource.hpp"
#include "trace_writer.hpp"

namespace gradus {

/// Writes the trace of a real step: the trace that `accounting` writes on meta, with times. It passes requests on to
/// another resource. Operations are traced if the context has this as its observer:
/// `context ctx{s, traced}; ctx.observe(&traced);`. Times are the host's: on an asynchronous device, of submission.
///
/// During a trace it hashes every block, which costs more than other resources do. Otherwise it only counts bytes, and
/// may stay in place for a whole run.
template <class Stream>
class basic_trace_resource final : public resource_adaptor<Stream>, public observer {
 public:
  explicit basic_trace_resource(basic_resource<Stream>& from) : resource_adaptor<Stream>(from) {}

  /// Writes all events until finish() to `trace`, which must live until then; after an exception without finish(),
  /// until all blocks are freed.
  void start(step_trace& trace) {
    forget();
    writer_.start(trace, live_by_);
    trace.alignment = Stream::alignment;
    started_ = std::chrono::steady_clock::now();
  }
  /// Ends the trace. Blocks that outlive the step count as live before it, as on meta.
  void finish() {
    writer_.finish();
    forget();
  }

  /// Bytes that are live now, traced or not.
  std::size_t live_bytes(category c) const { return live_by_[static_cast<std::size_t>(c)]; }

  void begin(const activity& what) override {
    if (writer_.writing()) writer_.begin(what).begin_us = now();
  }
  void end(const activity&) override {
    if (!writer_.writing()) return;
    const double us = now();
    if (op_span* op = writer_.end()) op->end_us = us;
  }
  void saved(std::string_view by, const memory_request& request) override {
    if (!writer_.writing()) return;
    if (const auto at = requests_.find(&request); at != requests_.end()) writer_.saved(by, at->second);
  }

 private:
  struct live_block {
    std::size_t number;
    const memory_request* request;
  };

  void forget() {
    blocks_.clear();
    requests_.clear();
  }
  double now() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - started_).count();
  }
  void* do_allocate(const memory_request& request, Stream& on) override {
    void* memory = this->from().allocate(request, on);
    if (writer_.writing()) {
      try {
        record(memory, request);
      } catch (...) {
        blocks_.erase(memory);
        requests_.erase(&request);
        this->from().deallocate(memory, request, on);
        throw;
      }
    }
    live_by_[static_cast<std::size_t>(request.what)] += request.bytes;
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    detail::take_off(live_by_[static_cast<std::size_t>(request.what)], "trace_resource", memory, request);
    if (writer_.writing()) record_end(memory);
    this->from().deallocate(memory, request, on);
  }
  // Everything that can throw precedes the first change of the trace, and reserves for the block's end too.
  void record(void* memory, const memory_request& request) {
    step_trace& trace = writer_.trace();
    live_block& block = blocks_.insert_or_assign(memory, live_block{trace.blocks.size(), &request}).first->second;
    requests_[&request] = block.number;
    const std::size_t events = 2 * (trace.blocks.size() + 1);
    if (trace.event_us.capacity() < events) trace.event_us.reserve(2 * events);
    writer_.asked(request);
    trace.event_us.push_back(now());
  }
  // Ignores blocks from before the trace.
  void record_end(void* memory) noexcept {
    const auto at = blocks_.find(memory);
    if (at == blocks_.end()) return;
    writer_.ended(at->second.number);
    writer_.trace().event_us.push_back(now());
    requests_.erase(at->second.request);
    blocks_.erase(at);
  }

  std::array<std::size_t, category_count> live_by_{};
  trace_writer writer_;
  std::chrono::steady_clock::time_point started_{};
  std::unordered_map<const void*, live_block> blocks_;
  // The address of a request identifies its block: a context does not move it while the block lives. Request numbers do
  // not: two contexts over one resource both count from 0.
  std::unordered_map<const memory_request*, std::size_t> requests_;
};

/// The trace_resource of the CPU.
using trace_resource = basic_trace_resource<stream>;

}  // namespace gradus
