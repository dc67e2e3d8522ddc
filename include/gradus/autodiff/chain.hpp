#pragma once
// A row of blocks, each a function of the one before it, run as a schedule of checkpoint regions says.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint.hpp"
#include "failures.hpp"

namespace gradus {

/// What happens to the blocks [first, last] of a chain.
struct chain_part {
  std::size_t first = 0;
  std::size_t last = 0;
  bool region = false;     ///< recompute at backward what is not kept; otherwise the blocks are recorded as they are
  std::uint64_t keep = 0;  ///< of one block alone: its operations whose results are kept, by number
  std::vector<chain_part> inner = {};  ///< of a region: how its blocks are recomputed; `keep` is not used then
};

/// What one block of a chain applies and what depends on what in it; see region_schedule::survey.
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

/// How the blocks of a chain are checkpointed. An empty schedule records all of them as they are.
class region_schedule {
 public:
  std::vector<chain_part> parts;               ///< cover the blocks in order; empty: no regions
  std::vector<block_facts>* survey = nullptr;  ///< where a run of a chain notes what its blocks are made of

  /// How deep regions may nest within one another in a schedule. Each level compiles the block once more.
  static constexpr int max_depth = 1;

  /// Every one of `blocks` blocks is a region that keeps what `keep` says.
  static constexpr region_schedule every_block(std::size_t blocks, std::uint64_t keep = 0) {
    region_schedule s;
    for (std::size_t i = 0; i < blocks; ++i) s.parts.push_back({i, i, true, keep});
    return s;
  }
};

namespace detail {

// Keeps nothing and writes down what it sees.
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

/// x through all `blocks` in order: x = f(block, x), with checkpoint regions as `schedule` says. `blocks`, `schedule`
/// and what `f` refers to must be there until backward. Throws error when the schedule is for another number of blocks.
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
