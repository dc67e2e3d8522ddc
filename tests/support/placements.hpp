#pragma once
// What placements are held against.

#include <algorithm>
#include <cstddef>
#include <gradus/plan/placement.hpp>
#include <iterator>
#include <map>

namespace gradus_test {

/// Largest sum of live bytes, in sizes as asked: no workspace can be smaller.
inline std::size_t live_peak(const gradus::step_trace& trace) {
  std::size_t live = 0, peak = 0;
  for (const gradus::memory_event& e : trace.events) {
    const std::size_t bytes = trace.blocks[e.block].bytes;
    live = e.begins ? live + bytes : live - bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

/// Whether a placement is right for a step: aligned, within the region, and no two live blocks overlap.
inline bool is_valid(const gradus::step_trace& trace, const gradus::placement& where) {
  if (where.offsets.size() != trace.blocks.size()) return false;
  std::map<std::size_t, std::size_t> live;  // offset, end
  for (const gradus::memory_event& e : trace.events) {
    const std::size_t offset = where.offsets[e.block], end = offset + trace.blocks[e.block].bytes;
    if (end == offset) {
      if (offset != 0) return false;
    } else if (!e.begins) {
      live.erase(offset);
    } else {
      if (offset % gradus::memory_request::alignment != 0 || end > where.bytes) return false;
      const auto next = live.lower_bound(offset);
      if (next != live.end() && next->first < end) return false;
      if (next != live.begin() && std::prev(next)->second > offset) return false;
      live.emplace(offset, end);
    }
  }
  return true;
}

}  // namespace gradus_test
