#pragma once
// Counters of recordings, by which values and tapes know whether their recording has ended.

#include <cstddef>
#include <string>
#include <type_traits>

#include "diagnostics.hpp"

namespace gradus::detail {

// Counts the recordings of a tape. It belongs to the context, which outlives the tape and all values that the tape
// recorded, so these detect the end of their recording even after the tape's destructor. The next tape continues it.
struct generation_counter {
  unsigned generation = 0;
  bool used = false;
  generation_counter* next = nullptr;
};

// The counters of one context.
class generation_counters {
 public:
  constexpr generation_counters() = default;
  generation_counters(const generation_counters&) = delete;
  generation_counters& operator=(const generation_counters&) = delete;
  constexpr ~generation_counters() {
    std::size_t used = 0;
    while (all_ != nullptr) {
      generation_counter* const c = all_;
      all_ = c->next;
      if (c->used) ++used;
      delete c;
    }
    if (used > 0) ended_too_early("context", std::to_string(used) + " tapes");
  }

  constexpr generation_counter& take() {
    generation_counter* c = all_;
    while (c != nullptr && c->used) c = c->next;
    if (c == nullptr) c = all_ = new generation_counter{0, false, all_};
    c->used = true;
    return *c;
  }
  // Ends the tape's last recording.
  constexpr void put(generation_counter& c) {
    ++c.generation;
    c.used = false;
  }

 private:
  generation_counter* all_ = nullptr;
};

}  // namespace gradus::detail
