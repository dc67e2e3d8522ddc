#pragma once
// The rows of a table's gradient that lookups touched.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../core/extent.hpp"
#include "../core/vector.hpp"

namespace gradus {

/// The rows of a gradient [rows, width] to which a step contributed; all others are zero. A contribution that is not
/// one of rows touches all of them.
class touched_rows {
 public:
  constexpr void set_extents(index_t rows, index_t width) {
    width_ = width;
    marks_.assign(rows, false);
  }
  constexpr bool all() const { return all_; }
  constexpr index_t width() const { return width_; }  ///< elements of a row
  constexpr index_t size() const { return marks_.size() * width_; }
  constexpr void add(index_t row) {
    if (all_ || marks_[row]) return;
    marks_[row] = true;
    sorted_ = sorted_ && (list_.empty() || list_.back() < row);
    list_.push_back(static_cast<std::uint32_t>(row));
  }
  constexpr void add_all() { all_ = true; }
  constexpr void clear() {
    for (const std::uint32_t row : list_) marks_[row] = false;
    list_.clear();
    all_ = false;
    sorted_ = true;
  }
  /// The rows, if they are not all: in order.
  constexpr const detail::vector<std::uint32_t>& list() {
    if (!sorted_) std::sort(list_.begin(), list_.end());
    sorted_ = true;
    return list_;
  }
  /// In order, the numbers of those runs of `unit` elements that have elements of these rows.
  constexpr const detail::vector<std::uint32_t>& units(index_t unit) {
    units_.clear();
    for (const std::uint32_t row : list()) {
      const index_t first = row * width_ / unit, last = ((row + 1) * width_ - 1) / unit;
      for (index_t u = units_.empty() ? first : std::max<index_t>(first, units_.back() + 1); u <= last; ++u)
        units_.push_back(static_cast<std::uint32_t>(u));
    }
    return units_;
  }

 private:
  index_t width_ = 1;
  detail::vector<bool> marks_;
  detail::vector<std::uint32_t> list_, units_;
  bool all_ = false, sorted_ = true;
};

}  // namespace gradus
