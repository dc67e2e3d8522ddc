#pragma once
// The extents of arrays in files: their product, and their text.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::detail {

/// Computes a * b; returns false on overflow.
constexpr bool multiply_fits(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  if (b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b) return false;
  product = a * b;
  return true;
}

/// Computes the product of `first` and all extents; returns false on overflow.
constexpr bool multiply_fits(std::span<const std::size_t> extents, std::uint64_t first, std::uint64_t& product) {
  product = first;
  for (const std::size_t e : extents)
    if (!multiply_fits(product, e, product)) return false;
  return true;
}

/// Extents as text: `[2, 3]`; those `in_type` may be bounds, `[upto<64>, 3]`.
GRADUS_NOINLINE inline std::string shape_text(std::span<const std::size_t> shape, bool in_type = false) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    if (in_type && is_bounded(shape[i])) text += "upto<" + std::to_string(bound_of(shape[i])) + ">";
    else text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace gradus::detail
