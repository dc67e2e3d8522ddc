#pragma once
// Predicts the time of operations.

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "../core/vector.hpp"
#include "../memory/trace.hpp"

namespace gradus {

/// The link between a device and host memory, over which checkpoint regions offload results.
struct host_link {
  double bytes = 0;      ///< a second, one way; 0: there is none, and nothing should be offloaded
  bool overlaps = true;  ///< copies run while others compute; not so on the CPU, where they run at once
};

/// Predicts how long operations take: measured if a trace with times was added, otherwise estimated from rates.
class time_table {
 public:
  /// Estimates the maximum of arithmetic at `flops` a second and memory traffic at `bytes` a second.
  explicit time_table(double flops = 50e9, double bytes = 10e9, host_link link = {})
      : flops_rate_(flops), bytes_rate_(bytes), link_(link) {}

  const host_link& link() const { return link_; }
  time_table without_link() const {
    time_table table = *this;
    table.link_ = {};
    return table;
  }

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
  /// Seconds of a step: of its operations, and the measured time between them. With a link, a copy of an offloaded
  /// result begins when those begun before it are done, and takes time from the step only where the step waits for it.
  /// Without one, it counts like an operation of its memory traffic.
  double seconds(const step_trace& step) const {
    double now = others_.empty() ? 0 : median(others_);
    double free = 0;  // when the link has done the copies begun so far
    for (const op_span& span : step.ops) {
      if (span.depth > 0) continue;
      const std::string_view name = span.what.name;
      if (link_.bytes > 0 && (name == offload_name || name == fetch_name)) {
        free = std::max(free, now) + static_cast<double>(span.what.work.bytes_read) / link_.bytes;
        if (!link_.overlaps) now = free;
      } else if (name == copy_wait_name) {
        now = std::max(now, free);
      } else {
        now += seconds(span.what);
      }
    }
    return now;
  }

 private:
  struct entry {
    std::string_view name;
    bool backward;
    cost work;
    detail::vector<double> samples;
    bool is(const activity& what) const {
      return name == what.name && backward == (what.phase == phase::backward) && work.flops == what.work.flops &&
             work.bytes() == what.work.bytes();
    }
  };
  detail::vector<double>& samples_of(const activity& what) {
    for (entry& e : entries_)
      if (e.is(what)) return e.samples;
    entries_.push_back({what.name, what.phase == phase::backward, what.work, {}});
    return entries_.back().samples;
  }
  static double median(detail::vector<double> v) {
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
  }

  double flops_rate_, bytes_rate_;
  host_link link_;
  detail::vector<entry> entries_;
  detail::vector<double> others_;
};

}  // namespace gradus
