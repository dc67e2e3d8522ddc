#pragma once
// Finds the fastest recompute schedule of a chain for every budget of bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "../core/byte_size.hpp"
#include "../core/error.hpp"
#include "../core/vector.hpp"
#include "chain_schedule.hpp"
#include "pareto.hpp"

namespace gradus {

/// Finds the fastest recompute schedule of a chain within a budget of bytes, for all budgets at once.
///
/// The dynamic programme is rotor's (Beaumont et al., arXiv 1911.13214) with two changes: a stage has any number
/// of options, and a subproblem has a Pareto front of (bytes, extra time) instead of a table over bytes. front(d, i,
/// j), of the stages i..j from the input of i with regions nested at most d deep, has the best of
///   - an option of stage i, then front(d, i+1, j) while what the option keeps is live;
///   - a region of the stages i..k-1, then front(d, k, j) while the input of k is live, then front(d-1, i, k-1).
class chain_planner {
 public:
  /// @param depth  how deep regions may nest; 0: no regions
  /// @param points most points of a front; fewer may make schedules slower, but none infeasible
  explicit chain_planner(stage_chain chain, std::size_t depth = 1, std::size_t points = 500)
      : chain_(std::move(chain)),
        plain_time_(chain_.time()),
        depth_(depth),
        points_(points),
        later_gradients_(stages()) {
    if (stages() == 0) throw error("chain planner: a chain without stages");
    for (std::size_t s = 0; s < stages(); ++s)
      if (chain_.stages[s].options.empty())
        throw error("chain planner: stage " + std::to_string(s) + " has no option; give it one that keeps all");
    for (std::size_t s = stages() - 1; s-- > 0;)
      later_gradients_[s] = later_gradients_[s + 1] + chain_.stages[s + 1].gradients;
    fronts_.resize((depth_ + 1) * stages() * stages());
    for (std::size_t d = 0; d <= depth_; ++d)
      for (std::size_t i = stages(); i-- > 0;)
        for (std::size_t j = i; j < stages(); ++j) solve(d, i, j);
  }

  /// The smallest budget that a schedule fits in.
  std::size_t least_budget() const { return chain_.input_of(0) + whole().front().bytes; }

  /// Peak and time of all Pareto-optimal schedules, from the smallest to the fastest.
  detail::vector<schedule_cost> trade_off() const {
    detail::vector<schedule_cost> result;
    for (const point& p : whole()) result.push_back(cost(p));
    return result;
  }

  /// The fastest schedule whose peak, with the chain's input, is at most `budget` bytes. Throws error if there is none.
  chain_schedule fastest(std::size_t budget) const {
    const auto fits = [&](const point& p) { return cost(p).peak <= budget; };
    std::size_t best = whole().size();
    while (best > 0 && !fits(whole()[best - 1])) --best;
    if (best == 0)
      throw error("memory budget: no schedule fits in " + std::to_string(budget) + " bytes (" + format_bytes(budget) +
                  "); the least that is feasible is " + std::to_string(least_budget()) + " bytes (" +
                  format_bytes(least_budget()) + ")");
    chain_schedule result;
    result.predicted = cost(whole()[best - 1]);
    write(depth_, 0, stages() - 1, best - 1, result.nodes);
    return result;
  }

 private:
  /// One solution of a subproblem: its first node, and its points of the fronts that follow.
  struct point {
    std::size_t bytes;  // beyond the input
    double time;        // extra
    std::uint32_t option;
    std::uint32_t region_end;    // stage after the region; 0 for an option
    std::uint32_t later, inner;  // points of the fronts of the stages after the node, and inside it
  };
  using front = detail::vector<point>;

  std::size_t stages() const { return chain_.stages.size(); }
  std::size_t input(std::size_t s) const { return chain_.input_of(s); }
  front& at(std::size_t d, std::size_t i, std::size_t j) { return fronts_[(d * stages() + i) * stages() + j]; }
  const front& at(std::size_t d, std::size_t i, std::size_t j) const {
    return fronts_[(d * stages() + i) * stages() + j];
  }
  const front& whole() const { return at(depth_, 0, stages() - 1); }
  schedule_cost cost(const point& p) const { return {input(0) + p.bytes, plain_time_ + p.time}; }

  void solve(std::size_t d, std::size_t i, std::size_t j) {
    front found;
    for (std::size_t o = 0; o < chain_.stages[i].options.size(); ++o) merge(found, with_option(d, i, j, o));
    if (d > 0) {
      std::size_t forward = 0;  // peak of the region's forward, without its input and `always`
      double time = 0;
      for (std::size_t k = i + 1; k <= j; ++k) {
        const chain_stage& s = chain_.stages[k - 1];
        forward = std::max(forward, (k - 1 > i ? s.input : 0) + input(k) + s.forward_temporaries);
        time += s.forward_time;
        merge(found, with_region(d, i, j, k, always(j) + forward, time));
      }
    }
    thin(found, points_);
    at(d, i, j) = std::move(found);
  }
  void merge(front& found, const front& more) const { merge_fronts(found, more, 1e-12 * plain_time_); }
  /// Appends a point to a front that grows in bytes and falls in time; it replaces a point of equal bytes.
  static void append(front& to, const point& p) {
    if (!to.empty() && to.back().bytes == p.bytes) to.back() = p;
    else to.push_back(p);
  }

  /// Bytes live from i's forward until j's backward: the gradients of j's output and of later stages' parameters.
  std::size_t always(std::size_t j) const { return input(j + 1) + later_gradients_[j]; }

  front with_option(std::size_t d, std::size_t i, std::size_t j, std::size_t number) const {
    const chain_option& o = chain_.stages[i].options[number];
    const std::size_t held = o.kept + input(i + 1);                               // the output, later its gradient
    const std::size_t alone = held + std::max(always(j) + o.forward_temporaries,  // forward
                                              later_gradients_[i] + o.backward_temporaries);
    const auto option = static_cast<std::uint32_t>(number);
    if (i == j) return {{alone, o.extra_time, option, 0, 0, 0}};
    front found;
    const front& later = at(d, i + 1, j);
    for (std::uint32_t r = 0; r < later.size(); ++r)
      append(found, {std::max(alone, held + later[r].bytes), o.extra_time + later[r].time, option, 0, r, 0});
    return found;
  }

  /// Solutions that begin with a region of the stages i..k-1, whose first forward needs `forward` bytes and `time`
  /// seconds.
  front with_region(std::size_t d, std::size_t i, std::size_t j, std::size_t k, std::size_t forward,
                    double time) const {
    const front &later = at(d, k, j), &inner = at(d - 1, i, k - 1);
    front found;
    // Walks both fronts in the order of bytes.
    for (std::uint32_t r = 0, n = 0;;) {
      const std::size_t bytes = std::max({forward, input(k) + later[r].bytes, inner[n].bytes});
      append(found, {bytes, time + later[r].time + inner[n].time, 0, static_cast<std::uint32_t>(k), r, n});
      const std::size_t next_later = r + 1 < later.size() ? input(k) + later[r + 1].bytes : SIZE_MAX;
      const std::size_t next_inner = n + 1 < inner.size() ? inner[n + 1].bytes : SIZE_MAX;
      if (next_later == SIZE_MAX && next_inner == SIZE_MAX) return found;
      next_later <= next_inner ? ++r : ++n;
    }
  }

  void write(std::size_t d, std::size_t i, std::size_t j, std::size_t which,
             detail::vector<schedule_node>& nodes) const {
    const point& p = at(d, i, j)[which];
    if (p.region_end == 0) {
      nodes.push_back({i, i, p.option, {}});
      if (i < j) write(d, i + 1, j, p.later, nodes);
      return;
    }
    nodes.push_back({i, p.region_end - 1, 0, {}});
    write(d - 1, i, p.region_end - 1, p.inner, nodes.back().inner);
    write(d, p.region_end, j, p.later, nodes);
  }

  stage_chain chain_;
  double plain_time_;  // of a step that recomputes nothing
  std::size_t depth_, points_;
  detail::vector<std::size_t> later_gradients_;  // bytes of parameter gradients of the stages after each
  detail::vector<front> fronts_;
};

}  // namespace gradus
