#pragma once
// Which gradient norms are so far above the usual that the update is better skipped.

#include <algorithm>
#include <cmath>
#include <limits>

namespace gradus {

/// Exponential averages (factor 0.98) of the gradient norms so far, and of their squares.
struct spike_filter {
  static constexpr double factor = 0.98;
  static constexpr int least = 32;  ///< norms before the first one that can be a spike

  double sum = 0, squares = 0, weight = 0;
  long long count = 0;   ///< norms so far
  long long spikes = 0;  ///< of them, those that were too large
  double score = 0;      ///< standard deviations of the last norm above the mean before it

  /// Calls f(name, number) for each number that decides about later norms.
  void for_each_number(const auto& f) {
    f("norm_sum", sum), f("norm_squares", squares), f("norm_weight", weight), f("norm_count", count),
        f("norm_spikes", spikes);
  }
  constexpr double mean() const { return weight > 0 ? sum / weight : 0; }
  /// Counts a norm. Returns whether it is a spike: more than `limit` standard deviations above the mean, and then it
  /// counts as that limit; or not finite, and then it does not count, and is one unless `overflows` says who else looks
  /// at those.
  constexpr bool takes(double norm, double limit, bool overflows = false) {
    if (!(norm <= std::numeric_limits<double>::max())) {
      spikes += overflows ? 0 : 1;
      score = norm;
      return !overflows;
    }
    const double before = mean();
    const double variance = weight > 0 ? std::max(squares / weight - before * before, 0.0) : 0.0;
    const double deviation = std::sqrt(variance);
    score = deviation > 0 ? (norm - before) / deviation : 0;
    const bool spike = count >= least && score > limit;
    const double counted = spike ? before + limit * deviation : norm;
    sum = factor * sum + counted;
    squares = factor * squares + counted * counted;
    weight = factor * weight + 1;
    ++count;
    spikes += spike ? 1 : 0;
    return spike;
  }
};

}  // namespace gradus
