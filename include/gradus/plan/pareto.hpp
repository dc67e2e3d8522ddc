#pragma once
// Pareto fronts of bytes and time.

#include <algorithm>
#include <cstddef>
#include <utility>

#include "../core/vector.hpp"

namespace gradus {

/// Merges a Pareto front into `front` and drops dominated choices. A front is sorted: each choice has more `bytes` and
/// less `time` than the one before. Gains of time up to `tolerance` count as rounding; of equal choices, the one in
/// `front` stays.
template <class Choice>
void merge_fronts(detail::vector<Choice>& front, const detail::vector<Choice>& more, double tolerance = 0) {
  detail::vector<Choice> merged;
  merged.reserve(front.size() + more.size());
  for (std::size_t i = 0, j = 0; i < front.size() || j < more.size();) {
    const auto ours_is_next = [&] {
      if (i == front.size() || j == more.size()) return j == more.size();
      const Choice &a = front[i], &b = more[j];
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.time <= b.time;
    };
    const Choice& next = ours_is_next() ? front[i++] : more[j++];
    if (merged.empty() || next.time < merged.back().time - tolerance) merged.push_back(next);
  }
  front = std::move(merged);
}

/// Thins a Pareto front to at most `most` choices, and at least two: the smallest, the fastest, and the fastest of each
/// of equally wide ranges of bytes between.
template <class Choice>
void thin(detail::vector<Choice>& front, std::size_t most) {
  most = std::max<std::size_t>(most, 2);
  if (front.size() <= most) return;
  const std::size_t least = front.front().bytes, range = front.back().bytes - least;
  const auto cell = [&](const Choice& c) {
    return static_cast<std::size_t>(static_cast<double>(c.bytes - least) / static_cast<double>(range) *
                                    static_cast<double>(most - 2));
  };
  std::size_t kept = 1;
  for (std::size_t i = 1; i < front.size(); ++i)
    if (i + 1 == front.size() || cell(front[i]) != cell(front[i + 1])) front[kept++] = front[i];
  front.resize(kept);
}

}  // namespace gradus
