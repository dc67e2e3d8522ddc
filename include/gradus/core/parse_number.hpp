#pragma once
// Numbers from text. libc++ before version 20 has no std::from_chars for floating-point numbers.

#include <cerrno>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "platform.hpp"

namespace gradus {

namespace detail {

template <std::floating_point T>
std::optional<T> parse_by_strtod(std::string_view text) {
  // strtod accepts these, std::from_chars does not: leading space, a plus sign, and hexadecimal digits.
  if (text.empty() || text.front() == '+' || text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r') ||
      text.find_first_of("xX") != std::string_view::npos)
    return std::nullopt;
  const std::string copy(text);
  errno = 0;
  char* end = nullptr;
  T value{};
  if constexpr (std::same_as<T, float>) value = platform::plain_strtof(copy.c_str(), &end);
  else value = static_cast<T>(platform::plain_strtod(copy.c_str(), &end));
  const bool too_large_or_small = errno == ERANGE && (std::isinf(value) || value == 0);
  if (end != copy.c_str() + copy.size() || too_large_or_small) return std::nullopt;
  return value;
}

template <class T>
std::optional<T> parse_by_from_chars(std::string_view text) {
  T value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace detail

/// Parses all of `text` as one decimal number: `-12`, `0.5`, `3e-4`, `inf`, `nan`, in any locale. Returns nullopt for
/// other text, leading space, a plus sign, or a value that T cannot represent.
template <class T>
  requires std::integral<T> || std::floating_point<T>
std::optional<T> parse_number(std::string_view text) {
#ifdef __cpp_lib_to_chars
  return detail::parse_by_from_chars<T>(text);
#else
  if constexpr (std::floating_point<T>) return detail::parse_by_strtod<T>(text);
  else return detail::parse_by_from_chars<T>(text);
#endif
}

}  // namespace gradus
