#pragma once
// The order in which gradients are summed: a binary tree over leaves, whatever number of ranks has them.
//
// An update has L leaves, a power of two, numbered as their batches are. A leaf is the gradient of its batches, added
// up one after another. The sum of leaves [b, e) is the sum of its first half plus the sum of its second half, in float
// (or double), rounded to the gradients' type once, at the root. R ranks, a power of two that divides L, have subtrees
// of this tree, so the bits depend neither on R nor on which rank has which leaf.
//
// The sum over any number n of parts is that tree with a first half of the largest power of two below n.

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::op::inline GRADUS_BUILD {

/// forward(ctx, T* to, const std::vector<const T*>& parts, n): element i of `to` becomes the sum of element i of all
/// parts, by the tree. `to` may be one of the parts. Integers wrap around.
struct tree_sum {
  /// Parts in the first half of a tree of n > 1 parts.
  static GRADUS_HD constexpr index_t first_half(index_t n) {
    index_t half = 1;
    while (2 * half < n) half *= 2;
    return half;
  }
};

/// forward(ctx, To* to, const std::vector<const C*>& before, const From* leaf, n): adds the last leaf of a subtree to
/// the complete subtrees before it, the nearest (and smallest) one first: to = before[k] + (... (before[0] + leaf)), in
/// C, the compute type of From. `to` may be `leaf` or one of `before`.
struct merge_leaves {};

}  // namespace gradus::op::inline GRADUS_BUILD
