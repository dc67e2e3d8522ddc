#pragma once
// Shapes as text, for messages.

#include <string>

#include "config.hpp"
#include "shape.hpp"

namespace gradus::detail {

GRADUS_NOINLINE inline std::string text_of_extents(const index_t* extents, index_t rank) {
  std::string text = "shape<";
  for (index_t i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(extents[i]);
  }
  return text += '>';
}

/// A shape as text: `shape<2, 3>`.
template <class Shape>
std::string shape_text() {
  return text_of_extents(Shape::extents.data(), Shape::rank);
}

}  // namespace gradus::detail
