#pragma once
// chain(blocks, x, schedule, f): runs blocks one after another, in the checkpoint regions of a schedule.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "../../core/cost.hpp"
#include "../failures.hpp"
#include "checkpoint.hpp"

namespace gradus {

/// How a chain runs its blocks [first, last].
struct chain_part {
  std::size_t first = 0;
  std::size_t last = 0;
  bool region = false;                 ///< a checkpoint region; otherwise the blocks are recorded as they are
  std::uint64_t keep = 0;              ///< if it is one block: the operations whose results the region keeps, by number
  std::vector<chain_part> inner = {};  ///< of a region: how a replay runs its blocks; `keep` is not used then
};

/// The operations of one block of a chain and their dependences; see region_schedule::survey.
struct block_facts {
  struct operation {
    std::string_view name, family;
    cost work;
    std::size_t bytes;
    friend constexpr bool operator==(const operation&, const operation&) = default;
  };
  std::vector<operation> operations;
  region_graph graph;
  std::size_t input_bytes = 0;
  friend constexpr bool operator==(const block_facts&, const block_facts&) = default;
};

/// The checkpoint regions of a chain. An empty schedule has none.
class region_schedule {
 public:
  std::vector<chain_part> parts;               ///< they cover the blocks in order; empty: no regions
  std::vector<block_facts>* survey = nullptr;  ///< if not null, chain() fills it and checkpoints every block

  /// How deep regions of a schedule may nest. Each level compiles the block once more.
  static constexpr int max_depth = 1;

  /// Each of `blocks` blocks is a region that keeps the results of the operations in `keep`.
  static constexpr region_schedule every_block(std::size_t blocks, std::uint64_t keep = 0) {
    region_schedule s;
    for (std::size_t i = 0; i < blocks; ++i) s.parts.push_back({i, i, true, keep});
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

template <int Depth, class Block, class X, class F>
constexpr X run_parts(const Block* blocks, X x, const std::vector<chain_part>& parts, std::size_t begin,
                      std::size_t end, const F& f) {
  std::size_t next = begin;
  for (const chain_part& part : parts) {
    if (part.first != next || part.last < part.first || part.last >= end) fail_chain_cover(end);
    next = part.last + 1;
    if (!part.region) {
      for (std::size_t i = part.first; i <= part.last; ++i) x = f(blocks[i], std::move(x));
    } else if (part.first == part.last && part.inner.empty()) {
      x = checkpoint(
          save_numbered{part.keep}, [f, block = blocks + part.first](auto v) { return f(*block, std::move(v)); },
          std::move(x));
    } else if constexpr (Depth > 0) {
      x = checkpoint(
          [f, blocks, part = &part](auto v) {
            return run_parts<Depth - 1>(blocks, std::move(v), part->inner, part->first, part->last + 1, f);
          },
          std::move(x));
    } else {
      fail_chain_depth();
    }
  }
  if (next != end) fail_chain_cover(end);
  return x;
}

}  // namespace detail

/// Runs x = f(block, x) for all `blocks` in order, in the checkpoint regions of `schedule`. `blocks`, `schedule` and
/// the objects that `f` refers to must exist until backward. Throws error if the schedule is for another number of
/// blocks.
template <class Blocks, class X, class F>
constexpr X chain(const Blocks& blocks, X x, const region_schedule& schedule, const F& f) {
  if constexpr (is_traced<X>) {
    if (schedule.survey != nullptr) {
      schedule.survey->clear();
      for (const auto& block : blocks) {
        schedule.survey->push_back({{}, {}, tensor_of<X>::bytes});
        x = checkpoint(
            detail::survey_policy{&schedule.survey->back()},
            [f, block = &block](auto v) { return f(*block, std::move(v)); }, std::move(x));
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
