#pragma once
// Updates in parts, so that a window of the parameters and states is in memory at a time.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "../core/extent.hpp"

namespace gradus {

/// Bytes that an update reads and writes.
struct memory_range {
  void* begin;
  std::size_t bytes;
};

/// Divides the updates of an optimizer into parts, and is notified of the memory that each uses; see
/// element_optimizer::divide_by.
class update_parts {
 public:
  /// A tensor is cut at multiples of this.
  static constexpr index_t unit = 4096;

  /// @param values most values of a part, which is rounded up to a multiple of the unit
  explicit update_parts(index_t values) : values_(std::max<index_t>((values + unit - 1) / unit, 1) * unit) {}
  update_parts(const update_parts&) = delete;
  update_parts& operator=(const update_parts&) = delete;
  virtual ~update_parts() = default;

  index_t values() const { return values_; }  ///< most values of a part
  /// The next part will use this memory; the one before it may still run.
  virtual void begin(std::span<const memory_range> used) = 0;
  /// A part has run, and no later one of this update uses its memory.
  virtual void end(std::span<const memory_range> used) = 0;

 private:
  index_t values_;
};

namespace detail {

// Some of an optimizer's spans, and the memory that they use.
template <class Span>
struct update_part {
  std::vector<Span> spans;
  std::vector<memory_range> ranges;
};

// Calls update(spans of a part) for all parts of `spans`. add_ranges(span, ranges) adds the memory of a span.
template <class Span, class AddRanges, class Update>
void update_in_parts(update_parts& by, const std::vector<Span>& spans, const AddRanges& add_ranges,
                     const Update& update) {
  std::size_t span = 0;
  index_t first = 0;
  const auto take = [&](update_part<Span>& to) {
    to.spans.clear();
    to.ranges.clear();
    for (index_t left = by.values(); left > 0 && span < spans.size();) {
      index_t n = spans[span].size - first;
      if (n > left) n = left / update_parts::unit * update_parts::unit;
      if (n == 0) break;
      to.spans.push_back(spans[span].cut(first, n));
      add_ranges(to.spans.back(), to.ranges);
      left -= n;
      first += n;
      if (first == spans[span].size) ++span, first = 0;
    }
    if (!to.spans.empty()) by.begin(to.ranges);
  };
  update_part<Span> part, next;
  take(next);
  while (!next.spans.empty()) {
    std::swap(part, next);
    take(next);
    update(part.spans);
    by.end(part.ranges);
  }
}

}  // namespace detail

}  // namespace gradus
