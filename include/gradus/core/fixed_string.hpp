#pragma once
// A string as a template argument.

#include <cstddef>
#include <string_view>

namespace gradus::detail {

/// A string as a template argument: `template <fixed_string Name>` takes "a name".
template <std::size_t N>
struct fixed_string {
  char text[N] = {};
  constexpr fixed_string(const char (&from)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = from[i];
  }
  constexpr operator std::string_view() const { return {text, N - 1}; }
};

}  // namespace gradus::detail
