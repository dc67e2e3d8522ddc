#pragma once
// chain(blocks, x, schedule, f): runs blocks one after another, in the checkpoint regions of a schedule.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <utility>

#include "../../core/cost.hpp"
#include "../../core/vector.hpp"
#include "../failures.hpp"
#include "checkpoint.hpp"

namespace gradus {

/// How a chain runs its blocks [first, last].
struct chain_part {
  std::size_t first = 0;
  std::size_t last = 0;
  bool region = false;     ///< a checkpoint region; otherwise the blocks are recorded as they are
  std::uint64_t keep = 0;  ///< if it is one block: the operations whose results the region keeps, by number
  detail::vector<chain_part> inner = {};  ///< of a region: how a replay runs its blocks; the others are not used then
  std::uint64_t offload = 0;              ///< the operations whose results it keeps in host memory
};

/// The operations of one block of a chain and their dependences; see region_schedule::survey.
struct block_facts {
  struct operation {
    std::string_view name, family;
    cost work;
    std::size_t bytes;
    friend constexpr bool operator==(const operation&, const operation&) = default;
  };
  detail::vector<operation> operations;
  region_graph graph;
  std::size_t input_bytes = 0;
  friend constexpr bool operator==(const block_facts&, const block_facts&) = default;
};

/// The checkpoint regions of a chain. An empty schedule has none.
class region_schedule {
 public:
  detail::vector<chain_part> parts;               ///< they cover the blocks in order; empty: no regions
  detail::vector<block_facts>* survey = nullptr;  ///< if not null, chain() fills it and checkpoints every block

  /// How deep regions of a schedule may nest. Each level compiles the block once more.
  static constexpr int max_depth = 1;

  /// Each of `blocks` blocks is a region that keeps the results of the operations in `keep`, and of the operations in
  /// `offload` in host memory.
  static constexpr region_schedule every_block(std::size_t blocks, std::uint64_t keep = 0, std::uint64_t offload = 0) {
    region_schedule s;
    for (std::size_t i = 0; i < blocks; ++i) s.parts.push_back({i, i, true, keep, {}, offload});
    return s;
  }
};

namespace detail {

// Keeps nothing, and collects the facts of a block.
struct survey_policy {
  block_facts* facts;
  constexpr bool saves(const region_op& op) const {
    facts->operations.push_back({op.name, op.family, op.work, op.bytes});
    return false;
  }
  constexpr void inspect(const region_graph& graph) const { facts->graph = graph; }
};

// What a chain carries: a value, or a std::tuple of values.
template <class X>
inline constexpr bool chains_traced = is_traced<X>;
template <class... Xs>
inline constexpr bool chains_traced<std::tuple<Xs...>> = (is_traced<Xs> && ...);
template <class X>
inline constexpr std::size_t chained_bytes = tensor_of<X>::bytes;
template <class... Xs>
inline constexpr std::size_t chained_bytes<std::tuple<Xs...>> = (tensor_of<Xs>::bytes + ...);

// Runs f(x) in a region, whose arguments are the values of x.
template <class Policy, class X, class F>
constexpr X run_in_region(const Policy& policy, X x, const F& f) {
  return checkpoint(policy, f, std::move(x));
}
template <class Policy, class... Xs, class F>
constexpr std::tuple<Xs...> run_in_region(const Policy& policy, std::tuple<Xs...> x, const F& f) {
  return std::apply(
      [&](Xs&... values) {
        return checkpoint(
            policy, [f](auto... inner) { return f(std::tuple(std::move(inner)...)); }, std::move(values)...);
      },
      x);
}

template <class V, class R>
constexpr R& recorder_of_chained(const traced<V, R>& x) {
  return x.recorder();
}
template <class... Xs>
constexpr auto& recorder_of_chained(const std::tuple<Xs...>& x) {
  return recorder_of_chained(std::get<0>(x));
}

template <int Depth, class Block, class X, class F>
constexpr X run_parts(const Block* blocks, X x, const detail::vector<chain_part>& parts, std::size_t begin,
                      std::size_t end, const F& f) {
  std::size_t next = begin;
  for (const chain_part& part : parts) {
    if (part.first != next || part.last < part.first || part.last >= end) fail_chain_cover(end);
    next = part.last + 1;
    if (!part.region) {
      auto& recorder = recorder_of_chained(x);
      recorder.begin_part();
      for (std::size_t i = part.first; i <= part.last; ++i) x = f(blocks[i], std::move(x));
      recorder.end_part();
    } else if (part.first == part.last && part.inner.empty()) {
      x = run_in_region(save_numbered{part.keep, part.offload}, std::move(x),
                        [f, block = blocks + part.first](auto v) { return f(*block, std::move(v)); });
    } else if constexpr (Depth > 0) {
      x = run_in_region(save_none{}, std::move(x), [f, blocks, part = &part](auto v) {
        return run_parts<Depth - 1>(blocks, std::move(v), part->inner, part->first, part->last + 1, f);
      });
    } else {
      fail_chain_depth();
    }
  }
  if (next != end) fail_chain_cover(end);
  return x;
}

}  // namespace detail

/// Runs x = f(block, x) for all `blocks` in order, in the checkpoint regions of `schedule`; x may be a std::tuple of
/// values, such as a residual stream and an auxiliary loss. `blocks`, `schedule` and the objects that `f` refers to
/// must exist until backward. Throws error if the schedule is for another number of blocks.
template <class Blocks, class X, class F>
constexpr X chain(const Blocks& blocks, X x, const region_schedule& schedule, const F& f) {
  if constexpr (detail::chains_traced<X>) {
    if (schedule.survey != nullptr) {
      schedule.survey->clear();
      for (const auto& block : blocks) {
        schedule.survey->push_back({{}, {}, detail::chained_bytes<X>});
        x = detail::run_in_region(detail::survey_policy{&schedule.survey->back()}, std::move(x),
                                  [f, block = &block](auto v) { return f(*block, std::move(v)); });
      }
      return x;
    }
    if (!schedule.parts.empty())
      return detail::run_parts<region_schedule::max_depth>(blocks.data(), std::move(x), schedule.parts, 0,
                                                           blocks.size(), f);
  }
  for (const auto& block : blocks) x = f(block, std::move(x));
  return x;
}

}  // namespace gradus
