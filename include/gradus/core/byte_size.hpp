#pragma once
// Sizes of memory as text: parse_bytes("600MiB"), format_bytes(n).

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "error.hpp"

namespace gradus {

namespace detail {
struct byte_unit {
  std::string_view name;
  std::size_t bytes;
};
inline constexpr byte_unit byte_units[] = {
    {"B", 1},
    {"kB", 1'000},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"KiB", std::size_t{1} << 10},
    {"MiB", std::size_t{1} << 20},
    {"GiB", std::size_t{1} << 30},
    {"TiB", std::size_t{1} << 40},
};
}  // namespace detail

/// Parses a number and a unit, rounding down to bytes: "600MiB", "1.5GiB", "512 MB". Throws error for other text and 0.
inline std::size_t parse_bytes(std::string_view text) {
  const auto refuse = [&](const std::string& why) -> std::size_t {
    throw error("size \"" + std::string(text) + "\": " + why);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string example = "write a number and a unit, such as 600MiB or 1.5GiB";

  if (text.empty()) return refuse("empty; " + example);
  if (text.front() == '-') return refuse("a size cannot be negative; " + example);
  if (!is_digit(text.front())) return refuse("does not begin with a digit; " + example);

  std::size_t at = 0, whole = 0;
  bool too_large = false;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const auto digit = static_cast<std::size_t>(text[at] - '0');
    too_large = too_large || whole > (SIZE_MAX - digit) / 10;
    if (!too_large) whole = whole * 10 + digit;
  }
  double fraction = 0;
  if (at < text.size() && text[at] == '.') {
    const std::size_t point = at++;
    for (double place = 0.1; at < text.size() && is_digit(text[at]); ++at, place /= 10)
      fraction += place * (text[at] - '0');
    if (at == point + 1) return refuse("no digit after the point; " + example);
  }
  while (at < text.size() && text[at] == ' ') ++at;

  const std::string_view unit = text.substr(at);
  if (unit.empty())
    return refuse("no unit; write B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)");
  for (const detail::byte_unit& u : detail::byte_units) {
    if (unit != u.name) continue;
    if (too_large || whole > SIZE_MAX / u.bytes) return refuse("more than this machine can address");
    const std::size_t bytes = whole * u.bytes;
    const auto rest = static_cast<std::size_t>(fraction * static_cast<double>(u.bytes));
    if (rest > SIZE_MAX - bytes) return refuse("more than this machine can address");
    return bytes + rest > 0 ? bytes + rest : refuse("a size of 0 bytes; " + example);
  }
  return refuse("unknown unit \"" + std::string(unit) + "\"; write B, KB, MB, GB, TB, KiB, MiB, GiB or TiB");
}

/// Formats a size with three significant digits: "1.24 GiB", "600 MiB", "17 B".
inline std::string format_bytes(std::size_t bytes) {
  constexpr std::array<const char*, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1023.5 && unit + 1 < units.size(); value /= 1024) ++unit;
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, units[unit]);
  return text.data();
}

}  // namespace gradus
