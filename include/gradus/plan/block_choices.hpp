#pragma once
// What a block of a chain can keep for backward, and what each choice costs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../autodiff/checkpoint/chain.hpp"
#include "../core/sort.hpp"
#include "pareto.hpp"
#include "time_table.hpp"

namespace gradus::detail {

// A set of operations whose results a block keeps.
struct block_choice {
  std::uint64_t keep = 0;
  bool region = true;
  std::size_t bytes = 0;     // kept
  double time = 0;           // of recomputing, seconds
  std::size_t computed = 0;  // bytes recomputed
};

// The cost of keeping the results of the operations in `keep`.
inline block_choice choice_of(const block_facts& block, std::uint64_t keep, const std::vector<double>& times) {
  block_choice c{keep};
  region_graph graph = block.graph;
  for (std::size_t i = 0; i < graph.size() && i < 64; ++i) graph.operations[i].kept = ((keep >> i) & 1u) != 0;
  graph.decide([&](std::size_t i, replay_action f) {
    if (f == replay_action::take) c.bytes += block.operations[i].bytes;
    else if (i < 64) c.keep &= ~(std::uint64_t{1} << i);
    if (f == replay_action::compute) {
      c.time += times[i];
      c.computed += block.operations[i].bytes;
    }
  });
  return c;
}

// The Pareto-optimal choices of a block. They are subsets of the operations with results, or of the 16 slowest if there
// are more. The last choice keeps all.
inline std::vector<block_choice> choices_of(const block_facts& block, const time_table& table) {
  std::vector<double> times;
  for (const auto& op : block.operations) times.push_back(table.seconds(activity{op.name, phase::forward, op.work}));
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
    if (block.operations[i].bytes > 0) candidates.push_back(i);
  sort_stably(candidates, [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
  if (candidates.size() > 16) candidates.resize(16);
  std::vector<block_choice> all;
  for (std::uint64_t subset = 0; subset < std::uint64_t{1} << candidates.size(); ++subset) {
    std::uint64_t keep = 0;
    for (std::size_t k = 0; k < candidates.size(); ++k)
      if (((subset >> k) & 1u) != 0) keep |= std::uint64_t{1} << candidates[k];
    all.push_back(choice_of(block, keep, times));
  }
  // Every operation, including those beyond the 64 bits.
  block_choice everything = choice_of(block, ~std::uint64_t{0}, times);
  everything.bytes += std::exchange(everything.computed, 0);
  everything.time = 0;
  all.push_back(everything);
  sort_stably(all, [](const block_choice& a, const block_choice& b) { return a.bytes < b.bytes; });
  std::vector<block_choice> front;
  merge_fronts(front, all);
  all = std::move(front);
  all.back().region = false;  // it recomputes nothing
  return all;
}

// The choices of each block. Blocks of the same operations share their choices, which are computed once.
inline std::vector<std::vector<block_choice>> choices_of(const std::vector<block_facts>& blocks,
                                                         const time_table& table) {
  std::vector<std::vector<block_choice>> choices;
  for (const block_facts& block : blocks) {
    const auto same = std::find(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(choices.size()), block);
    const auto at = static_cast<std::size_t>(same - blocks.begin());
    choices.push_back(at < choices.size() ? choices[at] : choices_of(block, table));
  }
  return choices;
}

}  // namespace gradus::detail
