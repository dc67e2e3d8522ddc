#pragma once
// Hints about extents that waste work.

#include <cstddef>
#include <string>

namespace gpt {

/// `n` rounded up to a multiple of `unit`.
constexpr std::size_t rounded_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

/// The share of work that is wasted if an extent of `n` is computed as the next multiple of `unit`.
constexpr double wasted_share(std::size_t n, std::size_t unit) {
  return 1 - static_cast<double>(n) / static_cast<double>(rounded_up(n, unit));
}

/// A hint about a wasteful extent: "a head width of 33 takes about as long as one of 48; ...". Empty if less than
/// `tolerated` of the work is wasted.
inline std::string size_hint(const std::string& what, std::size_t n, std::size_t unit, const std::string& advice,
                             double tolerated = 0.1) {
  if (n == 0 || wasted_share(n, unit) < tolerated) return {};
  std::string text = "hint: ";
  text.append(what).append(" of ").append(std::to_string(n)).append(" takes about as long as one of ");
  text.append(std::to_string(rounded_up(n, unit))).append("; ").append(advice);
  return text;
}

}  // namespace gpt
