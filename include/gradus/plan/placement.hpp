#pragma once
// Places the blocks of a step in one workspace.

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>

#include "../core/error.hpp"
#include "../core/sort.hpp"
#include "../core/vector.hpp"
#include "../memory/memory_plan.hpp"
#include "../memory/trace.hpp"
#include "occupied_offsets.hpp"

namespace gradus {

/// The offsets of a step's blocks in one workspace.
struct placement {
  detail::vector<std::size_t>
      offsets;            ///< of each block, multiples of the trace's alignment; 0 for blocks of zero bytes
  std::size_t bytes = 0;  ///< of the workspace
};

namespace detail {

// The size of a block, rounded up to the device's alignment.
constexpr std::size_t aligned_size(const step_trace& trace, std::size_t block) {
  return round_up(trace.blocks[block].bytes, trace.alignment);
}

// Peak of live bytes, in aligned sizes.
constexpr std::size_t largest_live_sum(const step_trace& trace) {
  std::size_t live = 0, peak = 0;
  for (const memory_event& e : trace.events) {
    const std::size_t bytes = aligned_size(trace, e.block);
    live = e.begins ? live + bytes : live - bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

// The moment of each event: the number of runs of frees before it. Two blocks overlap if their moments do. Moments are
// fewer than events, which halves the time of packing.
constexpr detail::vector<std::size_t> moments_of(const step_trace& trace) {
  detail::vector<std::size_t> moments(trace.events.size() + 1, 0);
  for (std::size_t e = 0; e < trace.events.size(); ++e) {
    const bool last_end = !trace.events[e].begins && (e + 1 == trace.events.size() || trace.events[e + 1].begins);
    moments[e + 1] = moments[e] + (last_end ? 1 : 0);
  }
  return moments;
}

// The most blocks that place() packs to improve a placement. A tenth of it, and of the time, is enough for most.
inline constexpr std::size_t placement_effort = 500'000;

/// Packs blocks in an order, each at the lowest offset that is free during its life. Every order gives a valid
/// placement, and some order gives the smallest one.
class block_packer {
 public:
  using order = detail::vector<std::size_t>;

  constexpr explicit block_packer(const step_trace& trace) : block_packer(trace, moments_of(trace)) {}

  struct item {
    std::size_t bytes, from, until, block, first_moment, end_moment;
    constexpr std::size_t life() const { return until - from; }
    constexpr double area() const { return static_cast<double>(bytes) * static_cast<double>(life()); }
  };

  /// All blocks in the order of their requests: optimal for a stack.
  constexpr order by_request() const {
    order result(items_.size(), 0);
    std::iota(result.begin(), result.end(), std::size_t{0});
    return result;
  }
  /// All blocks, sorted: item a comes first if `before(a, b)`.
  template <class Before>
  constexpr order sorted(const Before& before) const {
    order result = by_request();
    sort_stably(result, [&](std::size_t a, std::size_t b) { return before(items_[a], items_[b]); });
    return result;
  }

  /// Packs in this order, and keeps the smallest placement so far.
  constexpr void pack(const order& blocks) {
    occupied_.clear();
    top_ = 0;
    for (const std::size_t i : blocks) {
      const item& b = items_[i];
      offsets_[i] = occupied_.lowest_gap(b.bytes, b.first_moment, b.end_moment);
      occupied_.take(offsets_[i], b.bytes, b.first_moment, b.end_moment);
      top_ = std::max(top_, offsets_[i] + b.bytes);
    }
    if (top_ < best_ || best_offsets_.empty()) {
      best_ = top_;
      best_offsets_ = offsets_;
      best_order_ = blocks;
    }
  }

  /// Starts from the best order and repeatedly moves the blocks that reach the top to the front, until the placement is
  /// optimal or takes at most `enough` bytes, or `effort` blocks are packed.
  constexpr void improve(std::size_t enough, std::size_t effort) {
    order blocks = best_order_;
    offsets_ = best_offsets_;
    top_ = best_;
    const std::size_t rounds = std::min<std::size_t>(1000, effort / (items_.size() + 1) + 1);
    for (std::size_t round = 0; round < rounds && !optimal() && best_ > enough; ++round) {
      const auto reaches_top = [&](std::size_t i) { return offsets_[i] + items_[i].bytes == top_; };
      sort_stably(blocks, [&](std::size_t a, std::size_t b) { return reaches_top(a) && !reaches_top(b); });
      pack(blocks);
    }
  }

  constexpr std::size_t bytes() const { return best_; }       ///< of the smallest placement so far
  constexpr bool optimal() const { return best_ <= bound_; }  ///< no placement can be smaller

  constexpr void write(placement& result) const {
    for (std::size_t i = 0; i < items_.size(); ++i) result.offsets[items_[i].block] = best_offsets_[i];
    result.bytes = best_;
  }

 private:
  constexpr block_packer(const step_trace& trace, const detail::vector<std::size_t>& moments)
      : bound_(largest_live_sum(trace)), occupied_(moments.back() + 1) {
    for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
      const block_life& b = trace.blocks[i];
      if (b.bytes == 0) continue;
      const std::size_t end_moment = moments[std::min(b.until, trace.events.size())] + 1;
      items_.push_back({aligned_size(trace, i), b.from, b.until, i, moments[b.from], end_moment});
    }
    offsets_.resize(items_.size(), 0);
  }

  detail::vector<item> items_;
  std::size_t bound_;
  occupied_offsets occupied_;            // by the blocks packed so far
  detail::vector<std::size_t> offsets_;  // of the last order packed
  std::size_t top_ = 0;
  detail::vector<std::size_t> best_offsets_;
  order best_order_;
  std::size_t best_ = 0;
};

}  // namespace detail

/// Places the blocks of a step in one workspace, so that no two live blocks overlap. It packs them in several orders
/// and improves the best one; training steps end at their peak of live bytes, or close to it. The same trace always
/// gets the same placement. The search stops at a placement of at most `enough` bytes; with less `effort` it may find a
/// larger one.
constexpr placement place(const step_trace& trace, std::size_t enough = 0,
                          std::size_t effort = detail::placement_effort) {
  placement result;
  result.offsets.resize(trace.blocks.size(), 0);
  detail::block_packer packer(trace);
  using item = detail::block_packer::item;
  const auto attempt = [&](const auto& before) {
    if (!packer.optimal() && packer.bytes() > enough) packer.pack(packer.sorted(before));
  };
  packer.pack(packer.by_request());
  attempt([](const item& a, const item& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.life() > b.life(); });
  attempt([](const item& a, const item& b) { return a.area() > b.area(); });
  attempt([](const item& a, const item& b) { return a.until > b.until; });
  attempt([](const item& a, const item& b) { return a.life() > b.life(); });
  packer.improve(enough, effort);
  packer.write(result);
  return result;
}

/// The memory plan of a step whose blocks lie at `where`. Throws error if a block outlives the step: only a steady
/// step, which ends with the blocks that it began with, has a plan.
constexpr memory_plan make_plan(const step_trace& trace, const placement& where) {
  memory_plan plan;
  plan.bytes = where.bytes;
  plan.alignment = trace.alignment;
  detail::vector<std::size_t> number(trace.blocks.size(), 0);
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const block_life& b = trace.blocks[i];
    if (b.bytes == 0) continue;
    number[i] = plan.allocations.size();
    plan.allocations.push_back({b.bytes, b.what, b.source, where.offsets[i]});
    if (b.until >= trace.events.size())
      throw error("memory plan: request " + std::to_string(number[i] + 1) + " of the step, " +
                  describe_request(b.bytes, b.what, b.source) +
                  ", outlives the step; plan a steady step, which ends with what it began");
  }
  for (const memory_event& e : trace.events)
    if (trace.blocks[e.block].bytes > 0) plan.events.push_back({number[e.block], e.begins});
  return plan;
}
/// The memory plan of a step whose blocks place() places.
constexpr memory_plan make_plan(const step_trace& trace) { return make_plan(trace, place(trace)); }

}  // namespace gradus
