#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/cost.hpp"
#include "../memory/activity.hpp"

namespace gradus {

/// Where the time of training goes, by operation and phase. It sees a context that it observes:
/// `ctx.observe(&profile)`; an observer that is not set costs one comparison an operation. Times are the host's. On a
/// device that works behind the host those are times of submission, unless the profiler waits for it:
/// `profiler profile([&] { stream.synchronize(); })`; what is measured then is each operation by itself, its launch
/// included.
class profiler final : public observer {
 public:
  profiler() = default;
  /// `wait` is called before each time is taken.
  explicit profiler(std::function<void()> wait) : wait_(std::move(wait)) {}

  /// What one operation took in one phase, all its runs together.
  struct entry {
    std::string_view name;
    gradus::phase phase;
    std::size_t runs = 0;
    double seconds = 0;  ///< without the operations that ran within it
    cost work;           ///< what its shapes say, likewise of all runs
  };

  void begin(const activity& what) override;
  void end(const activity&) override;
  /// Counts a step that took `seconds`, whatever was observed in it.
  void add_step(double seconds);

  std::size_t steps() const { return steps_; }
  double step_seconds() const { return step_seconds_; }
  /// In the order in which they ran first.
  const std::vector<entry>& entries() const { return entries_; }

 private:
  struct running {
    activity what;
    double begin, inner;  // seconds; inner: spent in operations within it
  };

  double clock() const;
  entry& entry_of(const activity& what);

  std::function<void()> wait_;
  std::vector<entry> entries_;
  std::vector<running> open_;
  std::size_t steps_ = 0;
  double step_seconds_ = 0;
};

/// What a machine reaches at best, to compare with; 0: not known.
struct machine_rates {
  double flops = 0;  ///< a second, in matrix products
  double bytes = 0;  ///< a second, read and written
};

/// The profile as a table of plain ASCII, 80 columns wide, or 40 of what matters most where there are fewer: a row an
/// operation and phase, the slowest first, and how near each comes to what the machine could do at best (the longer of
/// its arithmetic and its memory traffic, over the time it took).
std::string profile_table(const profiler& p, const machine_rates& machine = {}, std::size_t columns = 80);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "profile.ipp"
#endif
