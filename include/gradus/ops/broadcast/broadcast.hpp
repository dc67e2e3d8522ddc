#pragma once
// Helpers of the elementwise operations: how an operand's elements are found under a larger shape, and the sum that
// takes a gradient back to the operand's shape.

#include "../../core/config.hpp"
#include "../../core/device.hpp"
#include "../../core/shape_algebra.hpp"

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

/// Where row `row` of an output of shape Out starts in an operand of shape In that is broadcast to it. A row is one run
/// along the last axis.
template <class In, class Out>
GRADUS_HD constexpr index_t broadcast_row_offset(index_t row) {
  index_t offset = 0;
  index_t stride = In::rank == 0 ? 1 : columns_of<In>;
  for (index_t i = 1; i < Out::rank; ++i) {  // axes from the back, the last one left out
    const index_t e = Out::extents[Out::rank - 1 - i];
    const index_t at = row % e;
    row /= e;
    const index_t have = detail::padded_extent<In>(i);
    if (have != 1) offset += at * stride;
    stride *= have;
  }
  return offset;
}

}  // namespace gradus
