#pragma once
#include <algorithm>

#include "../io/extents.hpp"
#include "host_array.hpp"

namespace gradus::detail {

GRADUS_IMPL std::string array_text(std::string_view dtype, std::span<const index_t> extents, bool in_type) {
  return std::string(dtype) + " " + shape_text(extents, in_type);
}

GRADUS_IMPL void check_array(const std::string& name, std::string_view dtype, std::span<const index_t> extents,
                             std::string_view needed_dtype, std::span<const index_t> needed) {
  const auto fits = [](index_t extent, index_t in_type) {
    return is_bounded(in_type) ? extent >= 1 && extent <= bound_of(in_type) : extent == in_type;
  };
  if (dtype != needed_dtype || !std::ranges::equal(extents, needed, fits))
    throw error(name + ": holds " + array_text(dtype, extents) + " where " + array_text(needed_dtype, needed, true) +
                " is needed");
}

GRADUS_IMPL void check_array_values(const std::string& name, std::span<const index_t> extents, std::size_t values) {
  std::uint64_t product = 0;
  if (!multiply_fits(extents, 1, product) || product != values)
    throw error(name + ": " + std::to_string(values) + " values for the extents " + shape_text(extents));
}

}  // namespace gradus::detail
