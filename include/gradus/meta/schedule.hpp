#pragma once
// From a model and a budget of bytes to a schedule of checkpoint regions: the blocks of its chain are looked at on the accounting
// device, the planner proposes schedules, and each proposal is run on the accounting device to know its true peak.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../autodiff/chain.hpp"
#include "../core/byte_size.hpp"
#include "chain_planner.hpp"
#include "plan.hpp"
#include "time_table.hpp"

namespace gradus {

/// A way to checkpoint a model's chain, with what a step then takes.
struct scheduled_step {
  region_schedule regions;
  step_plan plan;      ///< exact
  double seconds = 0;  ///< of a step, predicted
  std::string description;
};

namespace detail {

// One choice of what a block keeps.
struct block_choice {
  std::uint64_t keep = 0;
  bool region = true;
  std::size_t bytes = 0;     // kept
  double time = 0;           // computed again, seconds
  std::size_t computed = 0;  // bytes computed again
};

inline std::string names_of(const block_facts& block, std::uint64_t keep) {
  std::string names;
  for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
    if (((keep >> i) & 1u) != 0)
      names.append(names.empty() ? "" : ", ").append(block.operations[i].name).append(" (").append(std::to_string(i)) +=
          ")";
  return names;
}

// What keeping the operations in `keep` leads to.
inline block_choice choice_of(const block_facts& block, std::uint64_t keep, const std::vector<double>& times) {
  block_choice c{keep};
  region_graph graph = block.graph;
  for (std::size_t i = 0; i < graph.size() && i < 64; ++i) graph.operations[i].kept = ((keep >> i) & 1u) != 0;
  graph.decide([&](std::size_t i, fate f) {
    if (f == fate::take) c.bytes += block.operations[i].bytes;
    else if (i < 64) c.keep &= ~(std::uint64_t{1} << i);
    if (f == fate::compute) {
      c.time += times[i];
      c.computed += block.operations[i].bytes;
    }
  });
  return c;
}

// All choices worth having: of those that keep as much, the fastest. Every subset of the operations is tried where there are at
// most 16 that matter, of more the 16 that take longest. The last choice keeps all.
inline std::vector<block_choice> choices_of(const block_facts& block, const time_table& table) {
  std::vector<double> times;
  for (const auto& op : block.operations) times.push_back(table.seconds(activity{op.name, phase::forward, op.work}));
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < block.operations.size() && i < 64; ++i)
    if (block.operations[i].bytes > 0) candidates.push_back(i);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
  if (candidates.size() > 16) candidates.resize(16);
  std::vector<block_choice> all;
  for (std::uint64_t subset = 0; subset < std::uint64_t{1} << candidates.size(); ++subset) {
    std::uint64_t keep = 0;
    for (std::size_t k = 0; k < candidates.size(); ++k)
      if (((subset >> k) & 1u) != 0) keep |= std::uint64_t{1} << candidates[k];
    all.push_back(choice_of(block, keep, times));
  }
  // All of them, also those that have no bit.
  block_choice everything = choice_of(block, ~std::uint64_t{0}, times);
  everything.bytes += std::exchange(everything.computed, 0);
  everything.time = 0;
  all.push_back(everything);
  std::stable_sort(all.begin(), all.end(),
                   [](const block_choice& a, const block_choice& b) { return a.bytes < b.bytes; });
  std::vector<block_choice> front;
  merge_fronts(front, all);
  all = std::move(front);
  all.back().region = false;  // it computes nothing again
  return all;
}

inline region_schedule to_regions(const std::vector<schedule_node>& nodes,
                                  const std::vector<std::vector<block_choice>>& choices) {
  region_schedule s;
  for (const schedule_node& n : nodes) {
    const std::size_t chain_end = choices.size() - 1;  // what follows the chain is no part of it
    if (n.first == chain_end) continue;
    if (n.last == chain_end) {
      for (chain_part& p : to_regions(n.inner, choices).parts) s.parts.push_back(std::move(p));
    } else if (n.inner.empty()) {
      const block_choice& c = choices[n.first][n.option];
      s.parts.push_back({n.first, n.last, c.region, c.keep});
    } else {
      s.parts.push_back({n.first, n.last, true, 0, to_regions(n.inner, choices).parts});
    }
  }
  return s;
}

// What comes after the chain (the head and the loss) as one more stage: from a step whose blocks keep nothing, up to the first
// block that is run again.
inline chain_stage stage_after(const step_trace& lean, std::size_t blocks, std::size_t input) {
  std::size_t end = lean.events.size();
  for (const op_span& op : lean.ops)
    if (op.what.phase == phase::recompute) {
      end = op.first_event;
      break;
    }
  std::size_t live = 0;
  std::size_t most = 0;
  for (std::size_t e = 0; e < end; ++e) {
    const std::size_t bytes = lean.blocks[lean.events[e].block].bytes;
    live = lean.events[e].begins ? live + bytes : live - bytes;
    most = std::max(most, live);
  }
  const auto beyond = [](std::size_t a, std::size_t b) { return a > b ? a - b : 0; };
  chain_stage stage;
  stage.input = input;
  stage.gradients = beyond(live, (blocks + 1) * input);
  const std::size_t peak = beyond(most, (blocks + 1) * input);
  stage.options.push_back({0, 0, peak, std::max(peak, input + stage.gradients)});
  return stage;
}

// A schedule in words: a line for each run of blocks that do the same.
inline void describe_parts(const std::vector<chain_part>& parts, const std::vector<block_facts>& blocks,
                           const std::string& indent, std::string& text) {
  if (parts.empty()) text.append(indent).append("every block: keep all\n");
  for (std::size_t i = 0; i < parts.size();) {
    const chain_part& p = parts[i];
    std::size_t end = i + 1;
    while (end < parts.size() && p.inner.empty() && parts[end].inner.empty() && parts[end].region == p.region &&
           parts[end].keep == p.keep)
      ++end;
    const std::size_t last = parts[end - 1].last;
    text.append(indent).append(p.first == last ? "block " : "blocks ").append(std::to_string(p.first));
    if (p.first != last) text.append(" to ").append(std::to_string(last));
    if (!p.region) text.append(": keep all\n");
    else if (!p.inner.empty()) text.append(": keep the input, run again in backward\n");
    else text.append(": keep ").append(p.keep == 0 ? "nothing" : names_of(blocks[p.first], p.keep)) += '\n';
    if (!p.inner.empty()) describe_parts(p.inner, blocks, indent + "  ", text);
    i = end;
  }
}

}  // namespace detail

/// What the blocks of the model's chain apply, in order. `Options` has a member `regions` that reaches gradus::chain.
template <class Training, class Options>
std::vector<block_facts> survey_blocks(Options options) {
  std::vector<block_facts> blocks;
  options.regions = {};
  options.regions.survey = &blocks;
  trace_step<Training>(options);
  if (blocks.empty()) throw error("schedule: the model runs no gradus::chain under its options' `regions`");
  return blocks;
}

/// Every block a region that keeps what `policy` says; throws error if it names an operation that the blocks have not.
template <save_policy Policy>
region_schedule every_block(const std::vector<block_facts>& blocks, const Policy& policy) {
  region_schedule s;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    detail::policy_of<Policy> what(policy);
    std::uint64_t keep = 0;
    for (std::size_t i = 0; i < blocks[b].operations.size(); ++i) {
      const auto& op = blocks[b].operations[i];
      if (what.saves({op.name, op.family, i, op.work, op.bytes}) && i < 64) keep |= std::uint64_t{1} << i;
    }
    if (const auto name = what.missing(); !name.empty()) {
      std::string has;
      for (const auto& op : blocks[b].operations)
        if (has.find(op.name) == std::string::npos) has.append(has.empty() ? "" : ", ").append(op.name);
      throw error("checkpoint policy: the blocks apply nothing named '" + std::string(name) + "'; they apply " + has);
    }
    s.parts.push_back({b, b, true, keep});
  }
  return s;
}

/// Finds schedules of checkpoint regions for a model: everything worth having, and the fastest within a budget, of those that the
/// planner compares (500 amounts of memory at a time).
/// @tparam Training as for trace_step, constructed from `Options`, which has a member `regions` that reaches gradus::chain
template <class Training, class Options>
class scheduler {
 public:
  explicit scheduler(const Options& options, time_table table = time_table{})
      : options_(options), table_(std::move(table)), blocks_(survey_blocks<Training>(options)) {
    for (const block_facts& b : blocks_) choices_.push_back(detail::choices_of(b, table_));
    propose();
  }

  /// All schedules worth having, from the least memory to the least time: exact peaks, predicted times.
  const std::vector<scheduled_step>& worth_having() const { return front_; }

  /// The fastest schedule with which a step holds at most `budget` bytes, parameters and optimizer state included. Throws error,
  /// naming the least budget that is feasible, if there is none.
  scheduled_step within(std::size_t budget) const {
    const scheduled_step* best = nullptr;
    for (const scheduled_step& s : front_)
      if (s.plan.peak_bytes <= budget) best = &s;
    if (best == nullptr) {
      const std::size_t least = front_.front().plan.peak_bytes;
      throw error("memory budget: no schedule fits in " + std::to_string(budget) + " bytes (" + format_bytes(budget) +
                  "); the least that is feasible is " + std::to_string(least) + " bytes (" + format_bytes(least) + ")");
    }
    return improved(*best, budget);
  }

 private:
  // Proposals of the planner and a few plain ones, each run on meta; what another beats in memory and time is dropped.
  void propose() {
    const scheduled_step plain = measure({});
    const std::size_t gradients =
        plain.plan.peak_by[static_cast<std::size_t>(category::gradient)] / (blocks_.size() + 1);
    stage_chain chain;
    auto choices = choices_;
    for (std::size_t b = 0; b < blocks_.size(); ++b) chain.stages.push_back(stage_of(b, gradients));
    Options lean = options_;
    lean.regions = region_schedule::every_block(blocks_.size());
    chain.stages.push_back(detail::stage_after(trace_step<Training>(lean), blocks_.size(), blocks_.back().input_bytes));
    choices.emplace_back(1);

    std::vector<scheduled_step> all;
    const chain_planner planner(chain, region_schedule::max_depth, 500);
    for (const schedule_cost& point : planner.trade_off())
      all.push_back(measure(detail::to_regions(planner.fastest(point.peak).nodes, choices)));
    // The planner sees a chain; the whole step may have its peak elsewhere, where the same choice for all blocks does better.
    for (const detail::block_choice& c : choices_.front())
      if (c.region) all.push_back(measure(region_schedule::every_block(blocks_.size(), c.keep)));
    all.push_back(plain);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.plan.peak_bytes != b.plan.peak_bytes ? a.plan.peak_bytes < b.plan.peak_bytes : a.seconds < b.seconds;
    });
    for (scheduled_step& s : all)
      if (front_.empty() || s.seconds < front_.back().seconds) front_.push_back(std::move(s));
  }
  chain_stage stage_of(std::size_t b, std::size_t gradients) const {
    chain_stage stage;
    stage.input = blocks_[b].input_bytes;
    stage.gradients = gradients;
    std::size_t largest = 0;
    for (const auto& op : blocks_[b].operations) {
      stage.forward_time += table_.seconds(activity{op.name, phase::forward, op.work});
      largest = std::max(largest, op.bytes);
    }
    stage.forward_temporaries = 2 * largest;
    for (const detail::block_choice& c : choices_[b])
      stage.options.push_back({c.bytes, c.time, 2 * largest, c.computed + 2 * largest + gradients});
    return stage;
  }
  scheduled_step measure(const region_schedule& regions) const {
    Options options = options_;
    options.regions = regions;
    const step_trace trace = trace_step<Training>(options);
    scheduled_step s{std::move(options.regions), summarize(trace), table_.seconds(trace), {}};
    detail::describe_parts(s.regions.parts, blocks_, "", s.description);
    return s;
  }
  // Room that is left in the budget, at whatever moment of the step, is for blocks to keep more: the last first, because what it
  // keeps is needed for the shortest time.
  scheduled_step improved(scheduled_step best, std::size_t budget) const {
    if (best.regions.parts.empty()) return best;
    for (std::size_t p = best.regions.parts.size(); p-- > 0;) {
      const chain_part part = best.regions.parts[p];
      if (!part.region || part.first != part.last) continue;
      const auto& choices = choices_[part.first];  // the fastest is last
      for (std::size_t c = choices.size(); c-- > 0;) {
        region_schedule regions = best.regions;
        regions.parts[p].region = choices[c].region;
        regions.parts[p].keep = choices[c].keep;
        scheduled_step tried = measure(regions);
        if (tried.plan.peak_bytes > budget || tried.seconds >= best.seconds) continue;
        best = std::move(tried);
        break;
      }
    }
    return best;
  }

  Options options_;
  time_table table_;
  std::vector<block_facts> blocks_;
  std::vector<std::vector<detail::block_choice>> choices_;
  std::vector<scheduled_step> front_;
};

/// The fastest schedule of checkpoint regions with which a step of `Training` holds at most `budget` bytes, parameters and
/// optimizer state included. Throws error, naming the least budget that is feasible, if there is none.
template <class Training, class Options>
scheduled_step schedule(std::size_t budget, const Options& options, const time_table& table = time_table{}) {
  return scheduler<Training, Options>(options, table).within(budget);
}

}  // namespace gradus
