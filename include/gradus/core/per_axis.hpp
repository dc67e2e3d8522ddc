#pragma once
// Numbers for the two axes of an image.

#include "extent.hpp"

namespace gradus {

/// One number for the height and one for the width of an image; `2` is {2, 2}.
struct per_axis {
  index_t y, x;
  constexpr per_axis(index_t both) : y(both), x(both) {}  // NOLINT(google-explicit-constructor): .stride = 2
  constexpr per_axis(index_t along_y, index_t along_x) : y(along_y), x(along_x) {}
  friend constexpr bool operator==(const per_axis&, const per_axis&) = default;
};

}  // namespace gradus
