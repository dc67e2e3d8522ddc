#pragma once
// The version of the headers.

#include <string_view>

#include "config.hpp"

namespace gradus {

/// The version of the headers that a source was compiled with, such as "0.1.0".
constexpr std::string_view version() {
  return GRADUS_TEXT(GRADUS_VERSION_MAJOR) "." GRADUS_TEXT(GRADUS_VERSION_MINOR) "." GRADUS_TEXT(GRADUS_VERSION_PATCH);
}

}  // namespace gradus
