#pragma once
#include <string>

#include "shape.hpp"

namespace gradus::detail {

/// A shape as it is written: `shape<2, 3>`.
template <class Shape>
std::string shape_text() {
  std::string text = "shape<";
  for (index i = 0; i < Shape::rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(Shape::extents[i]);
  return text + ">";
}

}  // namespace gradus::detail
