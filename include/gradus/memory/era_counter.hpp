#pragma once
#include <cstddef>
#include <string>
#include <type_traits>

#include "diagnostics.hpp"

namespace gradus::detail {

// Counts the recordings of a tape. It belongs to a context, which outlives the tape and all values that the tape
// recorded, so these can tell that their recording is over even when the tape is gone. The next tape goes on counting.
struct era_counter {
  unsigned era = 0;
  bool used = false;
  era_counter* next = nullptr;
};

// The counters of one context.
class era_counters {
 public:
  constexpr era_counters() = default;
  era_counters(const era_counters&) = delete;
  era_counters& operator=(const era_counters&) = delete;
  constexpr ~era_counters() {
    std::size_t used = 0;
    while (all_ != nullptr) {
      era_counter* const c = all_;
      all_ = c->next;
      if (c->used) ++used;
      delete c;
    }
    if (used > 0) ended_too_early("context", std::to_string(used) + " tapes");
  }

  constexpr era_counter& take() {
    era_counter* c = all_;
    while (c != nullptr && c->used) c = c->next;
    if (c == nullptr) c = all_ = new era_counter{0, false, all_};
    c->used = true;
    return *c;
  }
  // Ends the last recording of the tape that had it.
  constexpr void put(era_counter& c) {
    ++c.era;
    c.used = false;
  }

 private:
  era_counter* all_ = nullptr;
};

}  // namespace gradus::detail
