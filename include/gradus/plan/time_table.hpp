#pragma once
// Predicts the time of operations.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "../memory/trace.hpp"

namespace gradus {

/// Predicts how long operations take: measured if a trace with times was added, otherwise estimated from rates.
class time_table {
 public:
  /// Estimates the maximum of arithmetic at `flops` a second and memory traffic at `bytes` a second.
  explicit time_table(double flops = 50e9, double bytes = 10e9) : flops_rate_(flops), bytes_rate_(bytes) {}

  /// Adds the times of a measured step. Of several steps, each operation's median counts.
  void add(const step_trace& measured) {
    double in_ops = 0;
    for (const op_span& span : measured.ops) {
      if (span.depth > 0) continue;
      const double seconds = (span.end_us - span.begin_us) * 1e-6;
      in_ops += seconds;
      samples_of(span.what).push_back(seconds);
    }
    if (measured.ops.empty()) return;
    others_.push_back(std::max(0.0, (measured.ops.back().end_us - measured.ops.front().begin_us) * 1e-6 - in_ops));
  }

  /// Seconds of one operation. Recomputing takes as long as forward.
  double seconds(const activity& what) const {
    for (const entry& e : entries_)
      if (e.is(what)) return median(e.samples);
    return std::max(static_cast<double>(what.work.flops) / flops_rate_,
                    static_cast<double>(what.work.bytes()) / bytes_rate_);
  }
  /// Seconds of a step: of its operations, and the measured time between them.
  double seconds(const step_trace& step) const {
    double sum = others_.empty() ? 0 : median(others_);
    for (const op_span& span : step.ops)
      if (span.depth == 0) sum += seconds(span.what);
    return sum;
  }

 private:
  struct entry {
    std::string_view name;
    bool backward;
    cost work;
    std::vector<double> samples;
    bool is(const activity& what) const {
      return name == what.name && backward == (what.phase == phase::backward) && work.flops == what.work.flops &&
             work.bytes() == what.work.bytes();
    }
  };
  std::vector<double>& samples_of(const activity& what) {
    for (entry& e : entries_)
      if (e.is(what)) return e.samples;
    entries_.push_back({what.name, what.phase == phase::backward, what.work, {}});
    return entries_.back().samples;
  }
  static double median(std::vector<double> v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
  }

  double flops_rate_, bytes_rate_;
  std::vector<entry> entries_;
  std::vector<double> others_;
};

}  // namespace gradus
