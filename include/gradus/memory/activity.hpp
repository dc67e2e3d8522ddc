#pragma once
// What runs in a context: the current operation, its phase and cost, and the observer of operations.

#include <cstddef>
#include <string_view>

#include "../core/config.hpp"
#include "../core/cost.hpp"

namespace gradus {

/// The part of a training step in which an operation runs. `recompute`: a checkpoint region runs its forward again.
enum class phase { outside, forward, recompute, backward, update };
/// Number of phases, for tables by phase.
inline constexpr std::size_t phase_count = 5;

/// Name of a phase, for output.
constexpr std::string_view phase_name(phase p) {
  constexpr std::string_view names[] = {"outside", "forward", "recompute", "backward", "update"};
  return names[static_cast<std::size_t>(p)];
}

/// One call of an operation: its name, phase and cost. Memory requests carry the activity that made them.
struct activity {
  std::string_view name;  ///< the operation's; static storage
  gradus::phase phase = gradus::phase::outside;
  cost work;
};

/// Names of the activities by which checkpoint regions move results to host memory: `offload` begins a copy out of
/// device memory and `fetch` one back into it, both with the bytes as their work's; in `copy_wait` the context's stream
/// waits for the copies begun before.
inline constexpr std::string_view offload_name = "offload", fetch_name = "fetch", copy_wait_name = "copy wait";

struct memory_request;

/// Floating-point elements that an operation computed, in host memory.
struct computed_values {
  const void* data = nullptr;
  std::size_t count = 0;
  double (*read)(const void* data, std::size_t i) = nullptr;  ///< element i
  std::size_t operand = 0;  ///< 0: the result; k >= 1: the accumulated gradient of operand k

  double at(std::size_t i) const { return read(data, i); }
};

/// Is notified of every operation that runs in a context, for profiles, timelines and plans; see context::observe.
class observer {
 public:
  constexpr observer() = default;
  observer(const observer&) = delete;
  observer& operator=(const observer&) = delete;
  constexpr virtual ~observer() = default;
  constexpr virtual void begin(const activity&) = 0;
  constexpr virtual void end(const activity&) = 0;
  /// Reports the values that an operation computed, on the CPU; of several, the first. An exception ends the step.
  constexpr virtual void computed(const activity&, const computed_values&) {}
  /// The operation named `by` keeps the block of `request` until its backward.
  constexpr virtual void saved(std::string_view /*by*/, const memory_request& /*request*/) {}
};

/// The current activity of a context, and its observer.
class activity_log {
 public:
  constexpr activity_log() = default;
  activity_log(const activity_log&) = delete;
  activity_log& operator=(const activity_log&) = delete;

  /// The current activity; memory requests are labelled with it.
  constexpr const activity& current() const { return current_; }
  /// Number of activities that have begun: while it is the same, one runs at most.
  constexpr std::size_t begun() const { return begun_; }
  /// Notifies `who` of all later operations; null ends that.
  constexpr void observe(observer* who) { observer_ = who; }
  constexpr observer* observed_by() const { return observer_; }

  /// Makes `what` the current activity during its lifetime. An exception of the observer leaves the log unchanged.
  class running {
   public:
    GRADUS_NOINLINE constexpr running(activity_log& log, std::string_view name, gradus::phase phase, const cost& work)
        : log_(&log), before_(log.current_) {
      const activity what{name, phase, work};
      if (log.observer_ != nullptr) log.observer_->begin(what);
      log.current_ = what;
      ++log.begun_;
    }
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    GRADUS_NOINLINE constexpr ~running() {
      if (log_->observer_ != nullptr) log_->observer_->end(log_->current_);
      log_->current_ = before_;
    }

   private:
    activity_log* log_;
    activity before_;
  };

 private:
  activity current_{};
  std::size_t begun_ = 0;
  observer* observer_ = nullptr;
};

}  // namespace gradus
