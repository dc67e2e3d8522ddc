#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../memory/memory_plan.hpp"
#include "trace.hpp"

namespace gradus {

/// Where each block of a step lies in one region.
struct placement {
  std::vector<std::size_t>
      offsets;                ///< one a block, multiples of memory_request::alignment; 0 for blocks of zero bytes
  std::size_t bytes = 0;      ///< of the region
  std::size_t live_peak = 0;  ///< largest sum of live bytes, in sizes as asked: no region can be smaller
};

namespace detail {

constexpr std::size_t aligned_size(std::size_t bytes) {
  return (bytes + memory_request::alignment - 1) / memory_request::alignment * memory_request::alignment;
}

/// The blocks in the order in which they begin and end: block number, and whether it begins. At one position, ends come first.
inline std::vector<memory_event> by_position(const step_trace& trace) {
  std::vector<memory_event> events;
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    events.push_back({i, true});
    events.push_back({i, false});
  }
  const auto key = [&](const memory_event& e) {
    const block_life& b = trace.blocks[e.block];
    return std::pair(e.begins ? b.from : b.until, e.begins);
  };
  std::sort(events.begin(), events.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return events;
}

/// Largest sum of live bytes over all moments, where `size` says how many a block of so many bytes counts.
template <class Size>
std::size_t largest_live_sum(const step_trace& trace, Size size) {
  std::size_t live = 0, peak = 0;
  for (const memory_event& e : by_position(trace)) {
    const std::size_t bytes = size(trace.blocks[e.block].bytes);
    live = e.begins ? live + bytes : live - bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

/// Packs blocks one after the other, each at the lowest offset that those before it leave free during its life. Any order
/// gives a valid placement, and some order gives the smallest one; which, is the art.
class block_packer {
 public:
  using order = std::vector<std::size_t>;
  struct item {
    std::size_t bytes, from, until, block;
    std::size_t life() const { return until - from; }
    double area() const { return static_cast<double>(bytes) * static_cast<double>(life()); }
  };

  explicit block_packer(const step_trace& trace) : bound_(largest_live_sum(trace, aligned_size)) {
    for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
      const block_life& b = trace.blocks[i];
      if (b.bytes > 0) items_.push_back({aligned_size(b.bytes), b.from, b.until, i});
    }
    offsets_.resize(items_.size());
  }

  /// All blocks, those first that `before` puts first.
  template <class Before>
  order sorted(Before before) const {
    order result(items_.size());
    std::iota(result.begin(), result.end(), std::size_t{0});
    std::stable_sort(result.begin(), result.end(),
                     [&](std::size_t a, std::size_t b) { return before(items_[a], items_[b]); });
    return result;
  }

  /// Packs in this order, and keeps the result if it is the best so far.
  void pack(const order& blocks) {
    placed_.clear();
    top_ = 0;
    for (const std::size_t i : blocks) {
      const std::size_t offset = lowest_gap(items_[i]);
      const std::size_t end = offset + items_[i].bytes;
      offsets_[i] = offset;
      top_ = std::max(top_, end);
      const auto at = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                       [](std::size_t o, const interval& p) { return o < p.offset; });
      placed_.insert(at, {offset, end, items_[i].from, items_[i].until});
    }
    if (top_ < best_ || best_offsets_.empty()) {
      best_ = top_;
      best_offsets_ = offsets_;
      best_order_ = blocks;
    }
  }

  /// Starts from the best order and, again and again, moves to the front the blocks that define the top. A round takes time
  /// in proportion to the square of the number of blocks, so many blocks get few rounds.
  void improve() {
    constexpr std::size_t most_rounds = 1000, pairs = 200'000'000;
    order blocks = best_order_;
    offsets_ = best_offsets_;
    top_ = best_;
    const std::size_t rounds = std::min(most_rounds, pairs / (items_.size() * items_.size() + 1) + 1);
    for (std::size_t round = 0; round < rounds && !optimal(); ++round) {
      std::stable_partition(blocks.begin(), blocks.end(),
                            [&](std::size_t i) { return offsets_[i] + items_[i].bytes == top_; });
      pack(blocks);
    }
  }

  bool optimal() const { return best_ <= bound_; }  ///< no placement is smaller than the best so far

  void write(placement& result) const {
    for (std::size_t i = 0; i < items_.size(); ++i) result.offsets[items_[i].block] = best_offsets_[i];
    result.bytes = best_;
  }

 private:
  struct interval {
    std::size_t offset, end, from, until;
  };

  std::size_t lowest_gap(const item& b) const {
    std::size_t end = 0;
    for (const interval& p : placed_) {
      if (p.until <= b.from || b.until <= p.from) continue;
      if (p.offset >= end + b.bytes) break;
      end = std::max(end, p.end);
    }
    return end;
  }

  std::vector<item> items_;
  std::size_t bound_;
  std::vector<interval> placed_;      // by offset
  std::vector<std::size_t> offsets_;  // of the last order packed
  std::size_t top_ = 0;
  std::vector<std::size_t> best_offsets_;
  order best_order_;
  std::size_t best_ = 0;
};

}  // namespace detail

/// Places the blocks of a step, whose lifetimes are known, in one region: no two that are alive at the same time overlap. Tries
/// several orders of packing and improves on the best one; training steps come out at the largest sum of live bytes, or close.
/// The same trace always gets the same placement.
inline placement place(const step_trace& trace) {
  using item = detail::block_packer::item;
  placement result;
  result.offsets.resize(trace.blocks.size());
  result.live_peak = detail::largest_live_sum(trace, [](std::size_t bytes) { return bytes; });
  detail::block_packer packer(trace);
  const auto attempt = [&](auto before) {
    if (!packer.optimal()) packer.pack(packer.sorted(before));
  };
  packer.pack(packer.sorted([](const item& a, const item& b) { return a.from < b.from; }));  // exact for a stack
  attempt([](const item& a, const item& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.life() > b.life(); });
  attempt([](const item& a, const item& b) { return a.area() > b.area(); });
  attempt([](const item& a, const item& b) { return a.until > b.until; });
  attempt([](const item& a, const item& b) { return a.life() > b.life(); });
  packer.improve();
  packer.write(result);
  return result;
}

/// Whether a placement is right for a step: aligned, within the region, and no two live blocks overlap.
inline bool is_valid(const step_trace& trace, const placement& where) {
  if (where.offsets.size() != trace.blocks.size()) return false;
  std::map<std::size_t, std::size_t> live;  // offset, end
  for (const memory_event& e : detail::by_position(trace)) {
    const std::size_t offset = where.offsets[e.block], end = offset + trace.blocks[e.block].bytes;
    if (end == offset) {
      if (offset != 0) return false;
    } else if (!e.begins) {
      live.erase(offset);
    } else {
      if (offset % memory_request::alignment != 0 || end > where.bytes) return false;
      const auto next = live.lower_bound(offset);
      if (next != live.end() && next->first < end) return false;
      if (next != live.begin() && std::prev(next)->second > offset) return false;
      live.emplace(offset, end);
    }
  }
  return true;
}

/// The plan that replays this step in one region. Throws error if a block outlives the step: a plan is for steady steps, which
/// end with what they began.
inline memory_plan make_plan(const step_trace& trace) {
  const placement where = place(trace);
  memory_plan plan;
  plan.bytes = where.bytes;
  std::vector<std::size_t> number(trace.blocks.size());
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

}  // namespace gradus
