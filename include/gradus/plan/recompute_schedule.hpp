#pragma once
// From a model and a budget of bytes to a schedule of checkpoint regions: the blocks of its chain are looked at on the
// accounting device, the planner proposes schedules, and each proposal is run on the accounting device and its blocks
// are placed, to know what it takes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../autodiff/chain.hpp"
#include "../core/byte_size.hpp"
#include "../core/sort.hpp"
#include "block_choices.hpp"
#include "chain_planner.hpp"
#include "placement.hpp"
#include "schedule_text.hpp"
#include "step_summary.hpp"
#include "time_table.hpp"

namespace gradus {

/// A way to checkpoint a model's chain, with what a step then takes.
struct scheduled_step {
  region_schedule regions;
  step_summary summary;  ///< exact
  double seconds = 0;    ///< of a step, predicted
  std::string description;
};

namespace detail {

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
    } else if (n.first == n.last) {  // a region of one block computes only what is needed again
      s.parts.push_back({n.first, n.last, true, 0});
    } else {
      s.parts.push_back({n.first, n.last, true, 0, to_regions(n.inner, choices).parts});
    }
  }
  return s;
}

// What comes after the chain (the head and the loss) as one more stage: from a step whose blocks keep nothing, up to
// the first block that is run again.
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

/// Finds schedules of checkpoint regions for a model: everything worth having, and the fastest within a budget, of
/// those that the planner compares (500 amounts of memory at a time).
/// @tparam Training as for trace_step, constructed from `Options`, which has a member `regions` that reaches
/// gradus::chain
template <class Training, class Options>
class recompute_scheduler {
 public:
  explicit recompute_scheduler(const Options& options, time_table table = time_table{})
      : options_(options),
        table_(std::move(table)),
        blocks_(survey_blocks<Training>(options)),
        choices_(detail::choices_of(blocks_, table_)) {
    propose();
  }

  /// All schedules worth having, from the least peak of live bytes to the least time: exact peaks, predicted times.
  const std::vector<scheduled_step>& worth_having() const { return front_; }

  /// The least that a step takes: what is persistent, and the memory that make_plan() places its other blocks in.
  std::size_t least_budget() const {
    std::size_t least = static_cast<std::size_t>(-1);
    for (auto p = proposals_.rbegin(); p != proposals_.rend(); ++p)  // small ones first, which rule out others
      if (p->peak_bytes < least) least = std::min(least, placed_bytes(trace(p->regions), 0, detail::placement_effort));
    return least;
  }

  /// The fastest schedule with which a step takes at most `budget` bytes: parameters and optimizer state, and the
  /// memory that make_plan() places its other blocks in. Nothing if there is none.
  std::optional<scheduled_step> find_within(std::size_t budget) const {
    // Few placements need much work, so little is tried first.
    for (const std::size_t effort : {detail::placement_effort / 10, detail::placement_effort})
      for (const proposal& p : proposals_) {
        if (p.peak_bytes > budget) continue;
        const step_trace step = trace(p.regions);
        if (placed_bytes(step, budget, effort) <= budget) return improved(measured(p.regions, step), budget);
      }
    return std::nullopt;
  }
  /// The same; throws error, naming the least budget that is feasible, if there is none.
  scheduled_step within(std::size_t budget) const {
    if (std::optional<scheduled_step> found = find_within(budget)) return *std::move(found);
    const std::size_t least = least_budget();
    throw error("memory budget: no schedule fits in " + std::to_string(budget) + " bytes (" + format_bytes(budget) +
                "); the least that is feasible is " + std::to_string(least) + " bytes (" + format_bytes(least) + ")");
  }

 private:
  // A schedule, with the peak of live bytes and the time of a step under it.
  struct proposal {
    region_schedule regions;
    std::size_t peak_bytes;
    double seconds;
  };

  // Proposals of the planner and a few plain ones, each run on meta.
  void propose() {
    const scheduled_step plain = measured({}, trace({}));
    const std::size_t gradients =
        plain.summary.peak_by[static_cast<std::size_t>(category::gradient)] / (blocks_.size() + 1);
    stage_chain chain;
    auto choices = choices_;
    for (std::size_t b = 0; b < blocks_.size(); ++b) chain.stages.push_back(stage_of(b, gradients));
    const step_trace lean = trace(region_schedule::every_block(blocks_.size()));
    chain.stages.push_back(detail::stage_after(lean, blocks_.size(), blocks_.back().input_bytes));
    choices.emplace_back(1);

    std::vector<scheduled_step> all;
    const auto add = [&](const region_schedule& regions) { all.push_back(measured(regions, trace(regions))); };
    const chain_planner planner(chain, region_schedule::max_depth, 500);
    for (const schedule_cost& point : planner.trade_off())
      add(detail::to_regions(planner.fastest(point.peak).nodes, choices));
    // The planner sees a chain; the whole step may have its peak elsewhere, where the same choice for all blocks does
    // better.
    for (const detail::block_choice& c : choices_.front())
      if (c.region) add(region_schedule::every_block(blocks_.size(), c.keep));
    all.push_back(plain);
    // The leanest with another choice for one block: its peak may be the same, and its blocks easier to place.
    const scheduled_step leanest = *std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.summary.peak_bytes < b.summary.peak_bytes;
    });
    for (std::size_t p = 0; p < leanest.regions.parts.size(); ++p) for_choices(leanest.regions, p, add);

    // What another proposal beats in live bytes and time may still have the better placement, so that all are kept.
    for (const scheduled_step& s : all) proposals_.push_back({s.regions, s.summary.peak_bytes, s.seconds});
    detail::sort_stably(proposals_, [](const proposal& a, const proposal& b) { return a.seconds < b.seconds; });
    detail::sort_stably(all, [](const auto& a, const auto& b) {
      return a.summary.peak_bytes != b.summary.peak_bytes ? a.summary.peak_bytes < b.summary.peak_bytes
                                                          : a.seconds < b.seconds;
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
  step_trace trace(const region_schedule& regions) const {
    Options options = options_;
    options.regions = regions;
    return trace_step<Training>(options);
  }
  scheduled_step measured(const region_schedule& regions, const step_trace& step) const {
    scheduled_step s{regions, summarize(step), table_.seconds(step), {}};
    detail::describe_parts(s.regions.parts, blocks_, "", s.description);
    return s;
  }
  // What a step takes where its blocks are placed; as soon as that is no more than `enough`, no better placement is
  // looked for.
  static std::size_t placed_bytes(const step_trace& step, std::size_t enough, std::size_t effort) {
    const std::size_t persistent = step.live_before;
    return persistent + place(step, enough > persistent ? enough - persistent : 0, effort).bytes;
  }
  // Calls f with the schedule under which part number `part`, if it is one block alone, makes another of its choices:
  // the fastest first.
  template <class F>
  void for_choices(region_schedule regions, std::size_t part, const F& f) const {
    chain_part& changed = regions.parts[part];
    if (changed.first != changed.last) return;
    changed.inner.clear();
    const auto& choices = choices_[changed.first];
    for (auto c = choices.rbegin(); c != choices.rend(); ++c) {
      changed.region = c->region;
      changed.keep = c->keep;
      f(std::as_const(regions));
    }
  }
  // What is left of the budget, at whatever moment of the step, is for blocks to keep more: the last first, because
  // what it keeps is needed for the shortest time.
  scheduled_step improved(scheduled_step best, std::size_t budget) const {
    for (std::size_t p = best.regions.parts.size(); p-- > 0;) {
      if (!best.regions.parts[p].region) continue;
      for_choices(best.regions, p, [&](const region_schedule& regions) {
        const step_trace step = trace(regions);
        scheduled_step tried = measured(regions, step);
        if (tried.summary.peak_bytes <= budget && tried.seconds < best.seconds &&
            placed_bytes(step, budget, detail::placement_effort / 10) <= budget)
          best = std::move(tried);
      });
    }
    return best;
  }

  Options options_;
  time_table table_;
  std::vector<block_facts> blocks_;
  std::vector<std::vector<detail::block_choice>> choices_;
  std::vector<proposal> proposals_;  // the fastest first
  std::vector<scheduled_step> front_;
};

/// The fastest schedule of checkpoint regions with which a step of `Training` takes at most `budget` bytes, parameters
/// and optimizer state included (see recompute_scheduler::within). Throws error, naming the least budget that is
/// feasible, if there is none.
template <class Training, class Options>
scheduled_step recompute_schedule(std::size_t budget, const Options& options, const time_table& table = time_table{}) {
  return recompute_scheduler<Training, Options>(options, table).within(budget);
}

}  // namespace gradus
