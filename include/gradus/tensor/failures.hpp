#pragma once
// The error messages of tensors and gradient slots.

#include <cstddef>

#include "../core/config.hpp"

namespace gradus::detail {

[[noreturn]] void fail_empty_tensor();
[[noreturn]] void fail_storage_size(std::size_t has, std::size_t takes);
[[noreturn]] void fail_number_of_values(std::size_t values, std::size_t elements);
[[noreturn]] void fail_placed_gradient();
[[noreturn]] void fail_placed_rows();
[[noreturn]] void fail_rows_on_this_device();

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "failures.ipp"
#endif
