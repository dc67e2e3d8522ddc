#pragma once
// Where the time of training goes, by operation and phase.

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

/// Measures the time of each operation and phase in the contexts that it observes: `ctx.observe(&profile)`. Times are
/// the host's. On an asynchronous device they are times of submission, unless the profiler waits:
/// `profiler profile([&] { stream.synchronize(); })` measures each operation by itself, its launch included.
class profiler final : public observer {
 public:
  profiler() = default;
  /// `wait` is called before each time is taken.
  explicit profiler(std::function<void()> wait) : wait_(std::move(wait)) {}

  /// All runs of one operation in one phase.
  struct entry {
    std::string_view name;
    gradus::phase phase;
    std::size_t runs = 0;
    double seconds = 0;  ///< without nested operations
    cost work;           ///< by its shapes, of all runs
  };

  void begin(const activity& what) override;
  void end(const activity&) override;
  /// Counts a step that took `seconds` in all.
  void add_step(double seconds);

  std::size_t steps() const { return steps_; }
  double step_seconds() const { return step_seconds_; }
  /// All entries, in the order of their first runs.
  const std::vector<entry>& entries() const { return entries_; }

 private:
  struct running {
    activity what;
    double begin, inner;  // seconds; inner: in nested operations
  };

  double clock() const;
  entry& entry_of(const activity& what);

  std::function<void()> wait_;
  std::vector<entry> entries_;
  std::vector<running> open_;
  std::size_t steps_ = 0;
  double step_seconds_ = 0;
};

/// The best rates of the machine, for comparison; 0: unknown.
struct machine_rates {
  double flops = 0;  ///< a second, in matrix products
  double bytes = 0;  ///< a second, read and written
};

/// The profile as a table of plain ASCII, 80 or 40 columns wide: a row for each operation and phase, the slowest first,
/// with its share of the machine's best rate (the longer of its arithmetic and its memory traffic, over its time).
std::string profile_table(const profiler& p, const machine_rates& machine = {}, std::size_t columns = 80);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "profile.ipp"
#endif
