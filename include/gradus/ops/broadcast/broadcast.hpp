#pragma once
// Helpers of the elementwise operations: where a gradient is written, and the sum that takes it back to the operand's
// shape.

#include "../../core/config.hpp"

namespace gradus {

/// Where an elementwise gradient kernel writes (null: not wanted), and whether it adds.
template <class T>
struct elementwise_target {
  T* data = nullptr;
  bool accumulate = false;
};

namespace op::inline GRADUS_BUILD {
/// Sums a broadcast gradient back to the shape it was broadcast from.
struct sum_to {};
}  // namespace op::inline GRADUS_BUILD

}  // namespace gradus
