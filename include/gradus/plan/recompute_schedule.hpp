#pragma once
// Finds the recompute schedule of a model for a budget of bytes. It traces the blocks of the model's chain on meta,
// lets chain_planner propose schedules, and traces and places each proposal, so that its bytes are exact.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "../autodiff/checkpoint/chain.hpp"
#include "../core/byte_size.hpp"
#include "../core/sort.hpp"
#include "../core/vector.hpp"
#include "block_choices.hpp"
#include "chain_planner.hpp"
#include "placement.hpp"
#include "schedule_text.hpp"
#include "step_summary.hpp"
#include "time_table.hpp"

namespace gradus {

/// A recompute schedule of a model's chain, and the memory and time of a step under it.
struct scheduled_step {
  region_schedule regions;
  step_summary summary;  ///< exact
  double seconds = 0;    ///< predicted, of a step
  std::string description;
};

namespace detail {

inline region_schedule to_regions(const detail::vector<schedule_node>& nodes,
                                  const detail::vector<detail::vector<block_choice>>& choices) {
  region_schedule s;
  for (const schedule_node& n : nodes) {
    const std::size_t chain_end = choices.size() - 1;  // the stage after the chain
    if (n.first == chain_end) continue;
    if (n.last == chain_end) {
      for (chain_part& p : to_regions(n.inner, choices).parts) s.parts.push_back(std::move(p));
    } else if (n.inner.empty()) {
      const block_choice& c = choices[n.first][n.option];
      s.parts.push_back({n.first, n.last, c.region, c.keep, {}, c.offload});
    } else if (n.first == n.last) {  // a region of one block recomputes only what backward reads
      s.parts.push_back({n.first, n.last, true, 0});
    } else {
      s.parts.push_back({n.first, n.last, true, 0, to_regions(n.inner, choices).parts});
    }
  }
  return s;
}

// The operations after the chain (the head and the loss) as one more stage, from the trace of a step whose blocks keep
// nothing: its events up to the first recomputed block.
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

/// The operations of each block of the model's chain. `Options` has a member `regions` that the model passes to
/// gradus::chain.
template <class Training, class Options>
detail::vector<block_facts> survey_blocks(Options options) {
  detail::vector<block_facts> blocks;
  options.regions = {};
  options.regions.survey = &blocks;
  trace_step<Training>(options);
  if (blocks.empty()) throw error("schedule: the model runs no gradus::chain under its options' `regions`");
  return blocks;
}

/// A schedule in which every block is a region that saves by `policy`. Throws error if the policy names an operation
/// that no block has.
template <save_policy Policy>
region_schedule every_block(const detail::vector<block_facts>& blocks, const Policy& policy) {
  region_schedule s;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    detail::policy_of<Policy> what(policy);
    std::uint64_t keep = 0;
    std::uint64_t offload = 0;
    for (std::size_t i = 0; i < blocks[b].operations.size(); ++i) {
      const auto& op = blocks[b].operations[i];
      const region_op asked{op.name, op.family, i, op.work, op.bytes};
      if (what.saves(asked) && i < 64) (what.offloads(asked) ? offload : keep) |= std::uint64_t{1} << i;
    }
    if (const auto name = what.missing(); !name.empty()) {
      std::string has;
      for (const auto& op : blocks[b].operations)
        if (has.find(op.name) == std::string::npos) has.append(has.empty() ? "" : ", ").append(op.name);
      throw error("checkpoint policy: the blocks apply nothing named '" + std::string(name) + "'; they apply " + has);
    }
    s.parts.push_back({b, b, true, keep, {}, offload});
  }
  return s;
}

/// Finds the Pareto-optimal recompute schedules of a model, and the fastest within a budget, among the schedules that
/// chain_planner compares.
/// @tparam Training as for trace_step, constructed from `Options`, which has a member `regions` that it passes to
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

  /// The Pareto-optimal schedules, from the least peak of live bytes to the least time: exact peaks, predicted times.
  const detail::vector<scheduled_step>& worth_having() const { return front_; }

  /// The least bytes that a step can take: persistent memory, and the workspace that place() finds for its other
  /// blocks.
  std::size_t least_budget() const {
    std::size_t least = static_cast<std::size_t>(-1);
    for (auto p = proposals_.rbegin(); p != proposals_.rend(); ++p)  // small ones first: they rule out others
      if (p->peak_bytes < least) least = std::min(least, placed_bytes(trace(p->regions), 0, effort_for(*p)));
    return least;
  }

  /// The fastest schedule under which a step takes at most `budget` bytes, counted as by least_budget(); empty if there
  /// is none.
  std::optional<scheduled_step> find_within(std::size_t budget) const {
    for (const proposal& p : proposals_) {
      if (p.peak_bytes > budget) continue;
      const step_trace step = trace(p.regions);
      if (placed_bytes(step, budget, effort_for(p)) <= budget) return measured(p.regions, step);
    }
    return std::nullopt;
  }
  /// The fastest schedule within `budget` bytes. Throws error, naming the least feasible budget, if there is none.
  scheduled_step within(std::size_t budget) const {
    if (std::optional<scheduled_step> found = find_within(budget)) return *std::move(found);
    const std::size_t least = least_budget();
    throw error("memory budget: no schedule fits in " + std::to_string(budget) + " bytes (" + format_bytes(budget) +
                "); the least that is feasible is " + std::to_string(least) + " bytes (" + format_bytes(least) + ")");
  }

 private:
  static constexpr std::size_t search_effort = 100'000;  // most operations traced to change proposals

  // A schedule, and the peak of live bytes and the time of a step under it.
  struct proposal {
    region_schedule regions;
    std::size_t peak_bytes;
    double seconds;
    std::size_t host_bytes;
  };

  // Collects the planner's schedules and a few uniform ones, and traces a step under each.
  void propose() {
    const step_trace plain_step = trace({});
    operations_ = plain_step.ops.size();
    const scheduled_step plain = measured({}, plain_step);
    const std::size_t gradients =
        plain.summary.peak_by[static_cast<std::size_t>(category::gradient)] / (blocks_.size() + 1);
    const step_trace lean = trace(region_schedule::every_block(blocks_.size()));
    const chain_stage after = detail::stage_after(lean, blocks_.size(), blocks_.back().input_bytes);

    detail::vector<scheduled_step> all;
    const auto add = [&](const region_schedule& regions) { all.push_back(measured(regions, trace(regions))); };
    const auto plan = [&](detail::vector<detail::vector<detail::block_choice>> choices) {
      stage_chain chain;
      for (std::size_t b = 0; b < blocks_.size(); ++b)
        chain.stages.push_back(stage_of(blocks_[b], choices[b], gradients));
      chain.stages.push_back(after);
      choices.emplace_back(1);
      const chain_planner planner(chain, region_schedule::max_depth, 500);
      for (const schedule_cost& point : planner.trade_off())
        add(detail::to_regions(planner.fastest(point.peak).nodes, choices));
    };
    // What the planner predicts of copies is less exact: its schedules without them are proposals, too.
    plan(detail::choices_of(blocks_, table_.without_link()));
    if (table_.link().bytes > 0) plan(choices_);
    // The planner models the chain alone. If the step peaks elsewhere, the same choice for all blocks may be better.
    for (const detail::block_choice& c : choices_.front())
      if (c.region) add(region_schedule::every_block(blocks_.size(), c.keep, c.offload));
    all.push_back(plain);
    spread(all, add);

    // Keeps dominated proposals, too: they may have the better placement.
    for (const scheduled_step& s : all)
      proposals_.push_back({s.regions, s.summary.peak_bytes, s.seconds, s.summary.host_bytes});
    detail::sort_stably(proposals_, [](const proposal& a, const proposal& b) {
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.host_bytes < b.host_bytes;
    });
    for (const std::size_t best : unbeaten(all)) front_.push_back(std::move(all[best]));
  }
  // Adds schedules that differ in one block from one that is there: first from those that no other beats, then from
  // those that only these beat, and so on, until enough operations are traced. What is found depends on no budget, so
  // that a larger budget never gives a slower step.
  template <class Add>
  void spread(detail::vector<scheduled_step>& all, const Add& add) const {
    std::set<detail::vector<std::uint64_t>> tried;
    for (const scheduled_step& s : all) tried.insert(key_of(s.regions));
    detail::vector<bool> done;
    const std::size_t most = all.size() + search_effort / (operations_ + 1);
    for (detail::vector<std::size_t> next; !(next = unbeaten(all, done)).empty();)
      for (const std::size_t from : next) {
        for_changes(region_schedule(all[from].regions), [&](const region_schedule& regions) {
          if (all.size() < most && tried.insert(key_of(regions)).second) add(regions);
        });
        if (all.size() >= most) return;
        done.resize(all.size());
        done[from] = true;
      }
  }
  // The numbers of the schedules that no other beats, from the least peak to the least time; those in `without` are
  // left out.
  static detail::vector<std::size_t> unbeaten(const detail::vector<scheduled_step>& all,
                                              const detail::vector<bool>& without = {}) {
    detail::vector<std::size_t> order, best;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (i >= without.size() || !without[i]) order.push_back(i);
    detail::sort_stably(order, [&](std::size_t x, std::size_t y) {
      const scheduled_step &a = all[x], &b = all[y];
      return a.summary.peak_bytes != b.summary.peak_bytes ? a.summary.peak_bytes < b.summary.peak_bytes
                                                          : a.seconds < b.seconds;
    });
    for (const std::size_t i : order)
      if (best.empty() || all[i].seconds < all[best.back()].seconds) best.push_back(i);
    return best;
  }
  chain_stage stage_of(const block_facts& block, const detail::vector<detail::block_choice>& choices,
                       std::size_t gradients) const {
    chain_stage stage;
    stage.input = block.input_bytes;
    stage.gradients = gradients;
    std::size_t largest = 0;
    for (const auto& op : block.operations) {
      stage.forward_time += table_.seconds(activity{op.name, phase::forward, op.work});
      largest = std::max(largest, op.bytes);
    }
    stage.forward_temporaries = 2 * largest;
    for (const detail::block_choice& c : choices) {
      const std::size_t temporaries = 2 * largest + 2 * c.moved;  // of this block and of the one before or after it
      stage.options.push_back({c.bytes, c.time, temporaries, c.computed + temporaries + gradients});
    }
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
  // The bytes of a step whose blocks are placed. The search for a placement stops at `enough` bytes.
  static std::size_t placed_bytes(const step_trace& step, std::size_t enough, std::size_t effort) {
    const std::size_t persistent = step.live_before;
    return persistent + place(step, enough > persistent ? enough - persistent : 0, effort).bytes;
  }
  // The effort to place a step, whatever the budget: a tenth is enough where others take a little more and fit, too.
  std::size_t effort_for(const proposal& p) const {
    const step_summary& least = front_.front().summary;
    const std::size_t close = least.peak_bytes + (least.peak_bytes - least.persistent_bytes) / 50;
    return p.peak_bytes <= close ? detail::placement_effort : detail::placement_effort / 10;
  }
  // Calls f with each schedule that makes another choice for one block.
  template <class F>
  void for_changes(region_schedule regions, const F& f) const {
    const auto change = [&](const auto& self, detail::vector<chain_part>& parts) -> void {
      for (chain_part& part : parts) {
        if (part.first != part.last) {
          self(self, part.inner);
          continue;
        }
        const chain_part before = part;
        const auto become = [&](bool region, std::uint64_t keep, std::uint64_t offload) {
          part = {part.first, part.last, region, keep, {}, offload};
          f(std::as_const(regions));
        };
        for (const detail::block_choice& c : choices_[part.first]) become(c.region, c.keep, c.offload);
        const auto& operations = blocks_[part.first].operations;
        for (std::size_t i = 0; i < operations.size() && i < 64; ++i)
          if (const auto bit = std::uint64_t{1} << i; operations[i].bytes > 0)
            become(true, before.keep ^ bit, before.offload & ~bit);
        part = before;
      }
    };
    change(change, regions.parts);
  }
  // Equal for equal schedules alone.
  static detail::vector<std::uint64_t> key_of(const region_schedule& regions) {
    detail::vector<std::uint64_t> key;
    const auto add = [&](const auto& self, const detail::vector<chain_part>& parts) -> void {
      for (const chain_part& p : parts) {
        key.insert(key.end(), {p.first, p.last, p.region, p.keep, p.offload, p.inner.size()});
        self(self, p.inner);
      }
    };
    add(add, regions.parts);
    return key;
  }

  Options options_;
  time_table table_;
  detail::vector<block_facts> blocks_;
  detail::vector<detail::vector<detail::block_choice>> choices_;
  detail::vector<proposal> proposals_;  // the fastest first
  detail::vector<scheduled_step> front_;
  std::size_t operations_ = 0;  // of a step that recomputes nothing
};

/// The fastest recompute schedule under which a step of `Training` takes at most `budget` bytes, parameters and
/// optimizer state included (see recompute_scheduler::within). Throws error, naming the least budget that is feasible,
/// if there is none.
template <class Training, class Options>
scheduled_step recompute_schedule(std::size_t budget, const Options& options, const time_table& table = time_table{}) {
  return recompute_scheduler<Training, Options>(options, table).within(budget);
}

}  // namespace gradus
