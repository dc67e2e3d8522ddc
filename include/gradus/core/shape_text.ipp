#pragma once
#include "shape_text.hpp"

namespace gradus::detail {

GRADUS_IMPL std::string text_of_extents(const index_t* extents, index_t rank) {
  std::string text = "shape<";
  for (index_t i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(extents[i]);
  }
  return text += '>';
}

}  // namespace gradus::detail
