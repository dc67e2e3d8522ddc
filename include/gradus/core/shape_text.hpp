#pragma once
// Shapes as text, for messages.

#include <string>

#include "config.hpp"
#include "shape.hpp"

namespace gradus::detail {

GRADUS_NOINLINE inline std::string text_of_extents(const index_t* in_type, index_t rank,
                                                   const index_t* there = nullptr) {
  std::string text = "shape<";
  for (index_t i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    const std::string bound = std::to_string(bound_of(in_type[i]));
    if (!is_bounded(in_type[i])) text += bound;
    else text += there == nullptr ? "upto<" + bound + ">" : std::to_string(there[i]) + " of " + bound;
  }
  return text += '>';
}

/// A shape as text: `shape<2, 3>`, `shape<upto<64>, 3>`.
template <class Shape>
std::string shape_text() {
  return text_of_extents(Shape::in_type.data(), Shape::rank);
}
/// The shape of one tensor: `shape<2, 3>`, or, if it is bounded, with the tensor's own extents: `shape<5 of 64, 3>`.
template <class Shape>
std::string shape_text(const extents_of<Shape>& of) {
  return text_of_extents(Shape::in_type.data(), Shape::rank, of.extents.data());
}

}  // namespace gradus::detail
