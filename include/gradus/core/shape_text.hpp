#pragma once
// Shapes as text, for messages.

#include <string>

#include "config.hpp"
#include "shape.hpp"

namespace gradus::detail {

std::string text_of_extents(const index_t* extents, index_t rank);

/// A shape as text: `shape<2, 3>`.
template <class Shape>
std::string shape_text() {
  return text_of_extents(Shape::extents.data(), Shape::rank);
}

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "shape_text.ipp"
#endif
