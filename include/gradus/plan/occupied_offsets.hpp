#pragma once
// The offsets that placed blocks occupy over time.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>

#include "../core/vector.hpp"

namespace gradus::detail {

/// Finds the lowest free offset for a block during its life. A segment tree over the moments of a step holds unions of
/// occupied intervals. Placed blocks are adjacent, so the unions are short, and take() and lowest_gap() visit a number
/// of nodes that grows with the logarithm of the moments only: steps of 500,000 blocks are placed in seconds.
class occupied_offsets {
  // In front of their uses, as clang needs them in constant expressions.

  // Calls f for the nodes that together cover [from, until), at most two a level. Node i has the children 2i and 2i +
  // 1.
  template <class F>
  constexpr void for_covering(std::size_t from, std::size_t until, const F& f) const {
    for (from += leaves_, until += leaves_; from < until; from /= 2, until /= 2) {
      if (from % 2 == 1) f(from++);
      if (until % 2 == 1) f(--until);
    }
  }
  // Calls f for the ancestors of those: the nodes that lie in [from, until) in part. They contain its first or last
  // moment.
  template <class F>
  constexpr void for_ancestors(std::size_t from, std::size_t until, const F& f) const {
    from += leaves_, until += leaves_;
    const auto in_part = [&](std::size_t node, unsigned level) {
      return node << level < from || (node + 1) << level > until;
    };
    std::size_t first = from, last = until - 1;
    for (unsigned level = 1; first > 1; ++level) {
      first /= 2, last /= 2;
      if (in_part(first, level)) f(first);
      if (last != first && in_part(last, level)) f(last);
    }
  }

 public:
  constexpr explicit occupied_offsets(std::size_t moments)
      : leaves_(std::bit_ceil(std::max<std::size_t>(moments, 1))),
        anywhere_(2 * leaves_, interval_set{}),
        throughout_(2 * leaves_, interval_set{}) {}

  constexpr void clear() {
    for (interval_set& s : anywhere_) s.clear();
    for (interval_set& s : throughout_) s.clear();
  }

  /// Occupies [offset, offset + bytes) during the moments [from, until); neither may be empty.
  constexpr void take(std::size_t offset, std::size_t bytes, std::size_t from, std::size_t until) {
    const interval taken{offset, offset + bytes};
    for_covering(from, until, [&](std::size_t node) {
      add(throughout_[node], taken);
      add(anywhere_[node], taken);
    });
    for_ancestors(from, until, [&](std::size_t node) { add(anywhere_[node], taken); });
  }

  /// The lowest offset at which `bytes` are free during all moments [from, until).
  constexpr std::size_t lowest_gap(std::size_t bytes, std::size_t from, std::size_t until) {
    searched_.clear();
    for_covering(from, until, [&](std::size_t node) { search(anywhere_[node]); });
    for_ancestors(from, until, [&](std::size_t node) { search(throughout_[node]); });
    std::size_t offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::span<const interval>& s : searched_) {
        while (!s.empty() && s.front().end <= offset) s = s.subspan(1);
        if (s.empty() || s.front().begin >= offset + bytes) continue;
        offset = s.front().end;
        moved = true;
      }
    }
    return offset;
  }

 private:
  struct interval {
    std::size_t begin, end;
  };
  using interval_set = detail::vector<interval>;  // sorted, with gaps between them

  static constexpr void add(interval_set& set, interval taken) {
    const auto first = std::lower_bound(set.begin(), set.end(), taken.begin,
                                        [](const interval& i, std::size_t begin) { return i.end < begin; });
    auto last = first;
    for (; last != set.end() && last->begin <= taken.end; ++last) {
      taken.begin = std::min(taken.begin, last->begin);
      taken.end = std::max(taken.end, last->end);
    }
    if (first == last) {
      set.insert(first, taken);
    } else {
      *first = taken;
      set.erase(first + 1, last);
    }
  }
  constexpr void search(const interval_set& set) {
    if (!set.empty()) searched_.emplace_back(set);
  }
  std::size_t leaves_;
  detail::vector<interval_set> anywhere_;    // of each node: occupied at some of its moments
  detail::vector<interval_set> throughout_;  // occupied at all of its moments, but not at all of its parent's
  detail::vector<std::span<const interval>> searched_;
};

}  // namespace gradus::detail
