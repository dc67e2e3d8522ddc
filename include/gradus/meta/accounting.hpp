#pragma once
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/device.hpp"
#include "../memory/context.hpp"
#include "trace.hpp"

namespace gradus {

/// The memory of the accounting device: hands out no bytes and counts them all, in all and by category. While a trace is being
/// written it also keeps the sequence. Usable in constant expressions.
class accounting final : public observer {
 public:
  constexpr accounting() = default;
  constexpr ~accounting() override {}  // g++ 12 wants a body to run it in a constant expression

  constexpr void* allocate(memory_request& request, meta_stream&) {
    request.id = requests_++;
    change(request.what, live_ + request.bytes, live_by_[place(request.what)] + request.bytes);
    if (live_ > peak_) {
      peak_ = live_;
      at_peak_ = live_by_;
      peak_source_ = request.source;
      peak_phase_ = request.phase;
      peak_request_ = request.id;
    }
    if (trace_ != nullptr) {
      trace_->events.push_back({trace_->blocks.size(), true});
      trace_->blocks.push_back({request.bytes, request.what, request.source, request.phase, trace_->events.size() - 1,
                                0, open_ops_.empty() ? none : open_ops_.back()});
    }
    return nullptr;
  }
  constexpr void deallocate(void*, const memory_request& request, meta_stream&) noexcept {
    change(request.what, live_ - request.bytes, live_by_[place(request.what)] - request.bytes);
    if (trace_ != nullptr && request.id >= first_request_) {
      const std::size_t block = request.id - first_request_;
      trace_->blocks[block].until = trace_->events.size();
      trace_->events.push_back({block, false});
    }
  }

  constexpr void used_on(void*, const memory_request&, meta_stream&) {}

  constexpr std::size_t live_bytes() const { return live_; }
  constexpr std::size_t peak_bytes() const { return peak_; }
  constexpr std::size_t live_bytes(category c) const { return live_by_[place(c)]; }
  constexpr std::size_t requests() const { return requests_; }
  /// What was live, by category, when the peak was reached first; and which request reached it.
  constexpr const std::array<std::size_t, category_count>& at_peak() const { return at_peak_; }
  constexpr std::string_view peak_source() const { return peak_source_; }
  constexpr phase peak_phase() const { return peak_phase_; }
  constexpr std::size_t peak_request() const { return peak_request_; }
  /// Starts the peak again from what is live now.
  constexpr void reset_peak() {
    peak_ = live_;
    at_peak_ = live_by_;
    peak_source_ = {};
  }

  /// Writes all that happens from now on into `trace`, until finish(). Operations are seen if the context is observed by this.
  constexpr void start(step_trace& trace) {
    trace = {};
    trace.blocks.reserve(1024);
    trace.events.reserve(2048);
    trace.ops.reserve(1024);
    trace.live_before = live_;
    for (std::size_t c = 0; c < category_count; ++c) trace.live_before_by[c] = live_by_[c];
    trace_ = &trace;
    first_request_ = requests_;
    open_ops_.clear();
  }
  /// Ends the trace. What the step leaves behind counts as there from the beginning, as it is for every later step.
  constexpr void finish() {
    step_trace& t = *std::exchange(trace_, nullptr);
    std::size_t left = 0;
    for (block_life& b : t.blocks) {
      if (b.op == none) b.op = t.ops.size();
      if (b.until != 0) continue;
      ++left;
      t.live_before += b.bytes;
      t.live_before_by[place(b.what)] += b.bytes;
    }
    if (left > 0) drop_left(t);
  }

  constexpr void begin(const activity& what) override {
    if (trace_ == nullptr) return;
    trace_->ops.push_back({what, trace_->events.size(), 0, open_ops_.size()});
    open_ops_.push_back(trace_->ops.size() - 1);
  }
  constexpr void end(const activity&) override {
    if (trace_ == nullptr || open_ops_.empty()) return;
    trace_->ops[open_ops_.back()].last_event = trace_->events.size();
    open_ops_.pop_back();
  }
  constexpr void saved(std::string_view by, const memory_request& request) override {
    if (trace_ == nullptr || request.id < first_request_) return;
    block_life& b = trace_->blocks[request.id - first_request_];
    if (b.saved_by.empty()) b.saved_by = by;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  // Takes the blocks without an end, and the events of their beginnings, out of the trace.
  static constexpr void drop_left(step_trace& t) {
    std::vector<std::size_t> new_block(t.blocks.size(), 0);
    std::vector<std::size_t> new_event(t.events.size() + 1, 0);
    std::size_t blocks = 0;
    std::size_t events = 0;
    for (std::size_t e = 0; e < t.events.size(); ++e) {
      new_event[e] = events;
      const memory_event event = t.events[e];
      if (t.blocks[event.block].until == 0) continue;
      if (event.begins) {
        new_block[event.block] = blocks;
        if (blocks != event.block) t.blocks[blocks] = t.blocks[event.block];
        ++blocks;
      }
      t.events[events++] = {new_block[event.block], event.begins};
    }
    new_event.back() = events;
    t.blocks.resize(blocks);
    t.events.resize(events);
    for (block_life& b : t.blocks) {
      b.from = new_event[b.from];
      b.until = new_event[b.until];
    }
    for (op_span& op : t.ops) {
      op.first_event = new_event[op.first_event];
      op.last_event = new_event[op.last_event];
    }
  }
  static constexpr std::size_t place(category c) { return static_cast<std::size_t>(c); }
  constexpr void change(category c, std::size_t live, std::size_t live_by) {
    live_ = live;
    live_by_[place(c)] = live_by;
  }

  std::size_t live_ = 0;
  std::size_t peak_ = 0;
  std::size_t requests_ = 0;
  std::array<std::size_t, category_count> live_by_{};
  std::array<std::size_t, category_count> at_peak_{};
  std::string_view peak_source_;
  phase peak_phase_ = phase::outside;
  std::size_t peak_request_ = 0;
  step_trace* trace_ = nullptr;
  std::size_t first_request_ = 0;
  std::vector<std::size_t> open_ops_;
};

context(meta_stream&, accounting&) -> context<meta>;

/// Bytes that do not exist need not move.
template <>
struct device_access<meta> {
  static constexpr void zero(context<meta>&, void*, std::size_t) {}
  static constexpr void copy(context<meta>&, void*, const void*, std::size_t) {}
  static constexpr void upload(context<meta>&, void*, const void*, std::size_t) {}
  static constexpr void download(context<meta>&, void*, const void*, std::size_t) {}
};

}  // namespace gradus
