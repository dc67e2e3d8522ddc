#pragma once
// What a block of a chain can keep for backward, and what each choice costs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "../autodiff/checkpoint/chain.hpp"
#include "../core/sort.hpp"
#include "../core/vector.hpp"
#include "pareto.hpp"
#include "time_table.hpp"

namespace gradus::detail {

// A set of operations whose results a block keeps.
struct block_choice {
  std::uint64_t keep = 0;
  bool region = true;
  std::size_t bytes = 0;      // kept on the device
  double time = 0;            // seconds: of recomputing, and of copies that are not hidden
  std::size_t computed = 0;   // bytes recomputed
  std::uint64_t offload = 0;  // operations whose results are kept in host memory
  std::size_t moved = 0;      // their bytes
};

// The cost of keeping the results of the operations in `keep`.
inline block_choice choice_of(const block_facts& block, std::uint64_t keep, const detail::vector<double>& times) {
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

// Seconds of a block's copies that are not hidden, if its neighbours are like it: the copies out run beside the forward
// of the next block, the copies back beside the backward of the next block, which is taken to be twice its forward and
// what is recomputed.
inline double exposed_seconds(std::size_t bytes, double forward, double recompute, const host_link& link) {
  const double copy = static_cast<double>(bytes) / link.bytes;
  if (!link.overlaps) return 2 * copy;
  return std::max(0.0, copy - forward) + std::max(0.0, copy - 2 * forward - recompute);
}

// The Pareto-optimal choices that keep the results of one of `kept` and the largest of them in host memory, from none
// to all. (A copied byte costs the same whatever the result, so larger results only mean fewer copies.)
inline detail::vector<block_choice> offloaded_choices(const block_facts& block,
                                                      const detail::vector<block_choice>& kept, double forward,
                                                      const host_link& link) {
  detail::vector<block_choice> found;
  for (const block_choice& from : kept) {
    detail::vector<std::size_t> results;
    for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
      if (((from.keep >> i) & 1u) != 0) results.push_back(i);
    sort_stably(results,
                [&](std::size_t a, std::size_t b) { return block.operations[a].bytes > block.operations[b].bytes; });
    block_choice c = from;
    detail::vector<block_choice> all{c};
    for (const std::size_t i : results) {
      c.keep &= ~(std::uint64_t{1} << i);
      c.offload |= std::uint64_t{1} << i;
      c.bytes -= block.operations[i].bytes;
      c.moved += block.operations[i].bytes;
      c.time = from.time + exposed_seconds(c.moved, forward, from.time, link);
      all.insert(all.begin(), c);
    }
    detail::vector<block_choice> front;
    for (const block_choice& one : all) merge_fronts(front, {one});
    merge_fronts(found, front);
  }
  return found;
}

// The Pareto-optimal choices of a block. They are subsets of the operations with results, or of the 16 slowest if there
// are more. The last choice keeps all. With a link, choices that keep results in host memory precede the others, and
// replace none: their copies on the way take memory, too, and how much depends on the other blocks.
inline detail::vector<block_choice> choices_of(const block_facts& block, const time_table& table) {
  detail::vector<double> times;
  for (const auto& op : block.operations) times.push_back(table.seconds(activity{op.name, phase::forward, op.work}));
  detail::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
    if (block.operations[i].bytes > 0) candidates.push_back(i);
  sort_stably(candidates, [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
  if (candidates.size() > 16) candidates.resize(16);
  detail::vector<block_choice> all;
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
  detail::vector<block_choice> front;
  merge_fronts(front, all);
  all.clear();
  if (table.link().bytes > 0) {
    double forward = 0;
    for (const double t : times) forward += t;
    detail::vector<block_choice> kept(front.begin(), front.end() - 1);
    kept.push_back(choice_of(block, ~std::uint64_t{0}, times));
    if (const std::size_t n = block.operations.size(); n < 64) kept.back().keep &= (std::uint64_t{1} << n) - 1;
    all = offloaded_choices(block, kept, forward, table.link());
  }
  front.back().region = false;  // it recomputes nothing
  all.insert(all.end(), front.begin(), front.end());
  return all;
}

// The choices of each block. Blocks of the same operations share their choices, which are computed once.
inline detail::vector<detail::vector<block_choice>> choices_of(const detail::vector<block_facts>& blocks,
                                                               const time_table& table) {
  detail::vector<detail::vector<block_choice>> choices;
  for (const block_facts& block : blocks) {
    const auto same = std::find(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(choices.size()), block);
    const auto at = static_cast<std::size_t>(same - blocks.begin());
    choices.push_back(at < choices.size() ? choices[at] : choices_of(block, table));
  }
  return choices;
}

}  // namespace gradus::detail
