#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace gradus {

/// Leaves of a set of choices, each with `bytes` and `time`, those that no other beats in both: more bytes, less time. A gain of
/// no more than `tolerance` is rounding. Of equals, the one that came first stays.
template <class Choice>
void keep_pareto_front(std::vector<Choice>& choices, double tolerance = 0) {
  std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.time < b.time;
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (kept == 0 || choices[i].time < choices[kept - 1].time - tolerance) choices[kept++] = choices[i];
  choices.resize(kept);
}

/// Leaves at most `most` (2 or more) choices of a Pareto front: the smallest, the fastest, and in between the fastest of each of
/// equally wide ranges of bytes.
template <class Choice>
void thin(std::vector<Choice>& front, std::size_t most) {
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
