#pragma once
#include <algorithm>
#include <vector>

namespace gradus {

struct node;

/// Told of parameters whose gradients are complete while backward() goes on, so that what follows (a reduction over
/// machines, an update) may begin; see tape::observe.
class gradient_observer {
 public:
  constexpr gradient_observer() = default;
  gradient_observer(const gradient_observer&) = delete;
  gradient_observer& operator=(const gradient_observer&) = delete;
  constexpr virtual ~gradient_observer() = default;
  /// Nothing of this recording contributes any more to the gradient of the parameter `p` with `&p.slot() == slot`,
  /// which is empty if nothing did. Called once for each parameter that the recording used, in and out of checkpoint
  /// regions, in the order in which they become complete.
  constexpr virtual void complete(const void* slot) = 0;
};

namespace detail {

// The first operation of a recording that uses each parameter. Backward goes from the last operation to the first, so a
// gradient is complete when the operation that used its parameter first has run, and the list is used up from its end.
// A checkpoint region counts as one operation: all that it applies again comes after it, and runs backward before it is
// done.
class first_uses {
 public:
  // The operation or region whose node is added next uses the parameter.
  constexpr void note(const void* slot) {
    if (std::none_of(all_.begin(), all_.end(), [&](const use& u) { return u.slot == slot; }))
      all_.push_back({nullptr, slot});
  }
  constexpr void added(const node* by) {
    for (auto u = all_.rbegin(); u != all_.rend() && u->by == nullptr; ++u) u->by = by;
  }
  constexpr void done(const node* by, gradient_observer& who) {
    while (!all_.empty() && all_.back().by == by) {
      const void* const slot = all_.back().slot;
      all_.pop_back();
      who.complete(slot);
    }
  }
  constexpr void clear() { all_.clear(); }

 private:
  struct use {
    const node* by;
    const void* slot;
  };
  std::vector<use> all_;
};

}  // namespace detail

}  // namespace gradus
