#pragma once
// The operations of a tape's checkpoint regions, and what replaying does with each: compute, take or skip it.

#include <cstddef>
#include <cstdint>

#include "../../core/vector.hpp"
#include "../op.hpp"

namespace gradus {

/// What replaying a region does with an operation: compute it, take the result that the region kept, or skip it because
/// backward needs nothing that depends on its output.
enum class replay_action : unsigned char { compute, take, skip };

/// The operations of a region in order, each with the producers of its inputs.
class region_graph {
 public:
  struct operation {
    std::size_t first_producer = 0;  ///< index in `producers` of its first input
    unsigned saved_inputs = 0;       ///< inputs that it saves, by bit; those from the 33rd on if all bits are set
    bool own_result = false;         ///< its backward needs its output or its statistics
    bool kept = false;               ///< the region keeps its result
    bool needed = false;             ///< a replay must have its output: it is read outside of operations, or saved
    friend constexpr bool operator==(const operation&, const operation&) = default;
  };
  detail::vector<operation> operations;
  detail::vector<unsigned> producers;  ///< of inputs: the number, from 1, of an operation; 0: comes from outside

  constexpr std::size_t size() const { return operations.size(); }
  friend constexpr bool operator==(const region_graph&, const region_graph&) = default;
  /// Calls `set(i, action)` for every operation, from the last to the first. Overwrites the `needed` flags.
  template <class F>
  constexpr void decide(const F& set) {
    for (std::size_t i = operations.size(); i-- > 0;) {
      const operation& o = operations[i];
      const replay_action action = !o.needed && !o.own_result ? replay_action::skip
                                   : o.kept                   ? replay_action::take
                                                              : replay_action::compute;
      set(i, action);
      const std::size_t end = i + 1 < operations.size() ? operations[i + 1].first_producer : producers.size();
      for (std::size_t k = o.first_producer; k < end; ++k)
        if (producers[k] != 0 &&
            (action == replay_action::compute || detail::has_input(o.saved_inputs, k - o.first_producer)))
          operations[producers[k] - 1].needed = true;
    }
  }
  constexpr void clear() {
    operations.clear();
    producers.clear();
  }
};

/// Adds `producer` to a digest of producers in their order.
constexpr std::uint64_t next_digest(std::uint64_t digest, unsigned producer) {
  return (digest + producer + 1) * 0x9e3779b97f4a7c15u;
}

/// One operation of an open region.
struct region_entry {
  const void* key = nullptr;  ///< identifies the operation and its operands' types
  std::uint64_t inputs = 0;   ///< digest of its inputs: their producers, and the versions of parameters
  std::uint64_t states = 0;   ///< sum of the versions of the states among its inputs
  replay_action action = replay_action::skip;
};

/// The entries of all open regions, one region after another, and the graph of the region that is being recorded.
class region_log {
 public:
  detail::vector<region_entry> entries;
  region_graph graph;

  /// Adds an operation to that region. The caller appends the producers of its inputs to graph.producers.
  constexpr void add(const void* key, std::uint64_t inputs, bool kept, bool own_result, unsigned saved_inputs) {
    entries.push_back({.key = key, .inputs = inputs});
    graph.operations.push_back({graph.producers.size(), saved_inputs, own_result, kept, false});
  }
  /// The output of operation `producer` (from 1) was read outside of operations.
  constexpr void read(unsigned producer) {
    if (producer != 0 && producer <= graph.size()) graph.operations[producer - 1].needed = true;
  }
  /// Sets the actions of that region, whose entries start at `first`.
  constexpr void decide(std::size_t first) {
    graph.decide([&](std::size_t i, replay_action a) { entries[first + i].action = a; });
    graph.clear();
  }
  constexpr void clear() {
    graph.clear();
    entries.clear();
  }
};

}  // namespace gradus
