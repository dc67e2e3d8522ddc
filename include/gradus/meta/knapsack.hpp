#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/error.hpp"
#include "pareto.hpp"

namespace gradus {

/// A value that a stage of a model may keep from forward to backward, or compute again.
struct keep_item {
  std::size_t bytes = 0;
  double time = 0;  ///< seconds that keeping it saves
};

/// One choice of what to keep: bit i of `kept` stands for item i.
struct keep_choice {
  std::size_t bytes = 0;  ///< of what is kept
  double time = 0;        ///< seconds to compute the rest again
  std::uint32_t kept = 0;
};

/// The 0/1 knapsack for every capacity at once: all choices of items (at most 32) than which none has both fewer bytes and less
/// time, from nothing kept to all kept. The front is exact; of a longer one, `most` choices are returned.
inline std::vector<keep_choice> knapsack(const std::vector<keep_item>& items, std::size_t most = 16) {
  if (items.size() > 32)
    throw error("knapsack: " + std::to_string(items.size()) + " values to choose from; at most 32, so join some");
  std::vector<keep_choice> front{{}};  // with `time` counting what is saved, negative
  double total = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    total += items[i].time;
    std::vector<keep_choice> with = front;
    for (keep_choice& c : with) c = {c.bytes + items[i].bytes, c.time - items[i].time, c.kept | std::uint32_t{1} << i};
    merge_fronts(front, with);
  }
  thin(front, most);
  for (keep_choice& c : front) c.time += total;
  return front;
}

}  // namespace gradus
