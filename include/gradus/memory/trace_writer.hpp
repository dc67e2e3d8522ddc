#pragma once
// Writes the events of a step to a step_trace.

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "../core/error.hpp"
#include "../core/vector.hpp"
#include "trace.hpp"

namespace gradus {

/// Appends events to a step_trace: requests and ends of blocks, operations, saved blocks. Its caller identifies the
/// blocks and adds times. Usable in constant expressions.
class trace_writer {
 public:
  constexpr bool writing() const { return trace_ != nullptr; }
  /// The trace being written.
  constexpr step_trace& trace() const { return *trace_; }

  /// Starts a new trace in `trace`. `live_by`: bytes live now, by category.
  constexpr void start(step_trace& trace, const std::array<std::size_t, category_count>& live_by) {
    trace = {};
    trace.blocks.reserve(1024);
    trace.events.reserve(2048);
    trace.ops.reserve(1024);
    for (std::size_t c = 0; c < category_count; ++c) {
      trace.live_before_by[c] = live_by[c];
      trace.live_before += live_by[c];
    }
    open_ops_.clear();
    trace_ = &trace;
  }

  /// Records the request of a block. Returns its number in the trace.
  constexpr std::size_t asked(const memory_request& request) {
    step_trace& t = *trace_;
    const std::size_t block = t.blocks.size();
    // Reserves both events of the block: ended() must not allocate.
    if (t.events.capacity() < 2 * (block + 1)) t.events.reserve(4 * (block + 1));
    t.blocks.push_back({request.bytes, request.what, request.source, request.phase, t.events.size(), 0,
                        open_ops_.empty() ? none : open_ops_.back()});
    t.events.push_back({block, true});
    return block;
  }
  /// Records the end of a block of this trace.
  constexpr void ended(std::size_t block) noexcept {
    trace_->blocks[block].until = trace_->events.size();
    trace_->events.push_back({block, false});
  }
  constexpr void saved(std::string_view by, std::size_t block) {
    block_life& b = trace_->blocks[block];
    if (b.saved_by.empty()) b.saved_by = by;
  }

  constexpr op_span& begin(const activity& what) {
    trace_->ops.push_back({what, trace_->events.size(), 0, open_ops_.size()});
    open_ops_.push_back(trace_->ops.size() - 1);
    return trace_->ops.back();
  }
  /// Ends the operation begun last and returns it; null if it began before the trace.
  constexpr op_span* end() {
    if (open_ops_.empty()) return nullptr;
    op_span& op = trace_->ops[open_ops_.back()];
    open_ops_.pop_back();
    op.last_event = trace_->events.size();
    return &op;
  }

  /// Ends the trace. Blocks that outlive the step count as live before it, as in every later step. Throws gradus::error
  /// if no trace was started.
  constexpr void finish() {
    if (!writing()) throw error("finish(): no trace is being written; call start(trace) before it");
    while (end() != nullptr) {}
    step_trace& t = *std::exchange(trace_, nullptr);
    bool left = false;
    for (block_life& b : t.blocks) {
      if (b.op == none) b.op = t.ops.size();
      if (b.until != 0) continue;
      left = true;
      t.live_before += b.bytes;
      t.live_before_by[static_cast<std::size_t>(b.what)] += b.bytes;
    }
    if (left) drop_left(t);
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  // Removes the blocks without an end, and their events.
  static constexpr void drop_left(step_trace& t) {
    detail::vector<std::size_t> new_block(t.blocks.size(), 0);
    detail::vector<std::size_t> new_event(t.events.size() + 1, 0);
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
      if (!t.event_us.empty()) t.event_us[events] = t.event_us[e];
      t.events[events++] = {new_block[event.block], event.begins};
    }
    new_event.back() = events;
    t.blocks.resize(blocks);
    t.events.resize(events);
    if (!t.event_us.empty()) t.event_us.resize(events);
    for (block_life& b : t.blocks) {
      b.from = new_event[b.from];
      b.until = new_event[b.until];
    }
    for (op_span& op : t.ops) {
      op.first_event = new_event[op.first_event];
      op.last_event = new_event[op.last_event];
    }
  }

  step_trace* trace_ = nullptr;
  detail::vector<std::size_t> open_ops_;
};

}  // namespace gradus
