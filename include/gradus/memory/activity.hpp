#pragma once
#include <string_view>

#include "../core/cost.hpp"

namespace gradus {

/// What part of a training step an operation runs in. `recompute` is a forward that a checkpoint region runs again.
enum class phase { outside, forward, recompute, backward, update };
/// Number of phases, for tables by phase.
inline constexpr std::size_t phase_count = 5;

/// Name of a phase, as printed.
constexpr std::string_view phase_name(phase p) {
  constexpr std::string_view names[] = {"outside", "forward", "recompute", "backward", "update"};
  return names[static_cast<std::size_t>(p)];
}

/// One application of an operation: what runs, when in a step, and what it takes. Requests for memory carry the activity
/// that made them.
struct activity {
  std::string_view name;  ///< the operation's; static storage
  gradus::phase phase = gradus::phase::outside;
  cost work;
};

struct memory_request;

/// Told of every operation that runs in a context; see context::observe. For profiles, timelines and plans.
class observer {
 public:
  constexpr observer() = default;
  observer(const observer&) = delete;
  observer& operator=(const observer&) = delete;
  constexpr virtual ~observer() = default;
  constexpr virtual void begin(const activity&) = 0;
  constexpr virtual void end(const activity&) = 0;
  /// The operation named `by` keeps the block that `request` asked for until its backward.
  constexpr virtual void saved(std::string_view /*by*/, const memory_request& /*request*/) {}
};

}  // namespace gradus
