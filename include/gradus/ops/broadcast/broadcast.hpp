#pragma once
// Gradients of broadcast operands: where a kernel writes them, and their sum to the operand's shape.

#include "../../core/config.hpp"

namespace gradus {

/// Where an elementwise kernel writes a gradient (null: not needed), and whether it adds.
template <class T>
struct elementwise_target {
  T* data = nullptr;
  bool accumulate = false;
};

namespace op::inline GRADUS_BUILD {
/// Sums a broadcast gradient to the shape of the operand.
struct sum_to {};
}  // namespace op::inline GRADUS_BUILD

}  // namespace gradus
