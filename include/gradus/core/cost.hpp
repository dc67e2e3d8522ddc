#pragma once
// The cost of one operation: FLOPs and bytes.

#include <cstddef>

namespace gradus {

/// The cost of one call of an operation, a function of its shapes.
struct cost {
  std::size_t flops = 0;       ///< floating-point operations; a multiply-add is two
  std::size_t bytes_read = 0;  ///< from memory, each input once
  std::size_t bytes_written = 0;
  constexpr std::size_t bytes() const { return bytes_read + bytes_written; }
  friend constexpr cost operator+(cost a, cost b) {
    return {a.flops + b.flops, a.bytes_read + b.bytes_read, a.bytes_written + b.bytes_written};
  }
  friend constexpr bool operator==(const cost&, const cost&) = default;
};

/// FLOPs of an operation; a multiply-add is two.
struct flop_counts {
  std::size_t forward = 0, backward = 0;
};

}  // namespace gradus
