#pragma once
#include <string>

#include "../core/error.hpp"
#include "failures.hpp"

namespace gradus::detail {

GRADUS_IMPL void fail_empty_tensor() {
  throw error(
      "this tensor is empty: it was moved from, default-constructed, or is a gradient that no backward() computed");
}

GRADUS_IMPL void fail_storage_size(std::size_t has, std::size_t takes) {
  throw error("tensor(storage): the buffer has " + std::to_string(has) + " bytes; the tensor needs " +
              std::to_string(takes));
}

GRADUS_IMPL void fail_number_of_values(std::size_t values, std::size_t elements) {
  throw error("from_values<T, Shape>(ctx, values): " + std::to_string(values) + " values for a shape of " +
              std::to_string(elements) + " elements; their numbers must be equal");
}

GRADUS_IMPL void fail_placed_rows() {
  throw error(
      "param_settings.rows_only: the gradient is tracked by rows, in memory of its own; set it before the first "
      "backward(), and not for a parameter whose gradient slot.place(storage) or ranks put elsewhere");
}
GRADUS_IMPL void fail_rows_on_this_device() {
  throw error("param_settings.rows_only: rows are tracked on the CPU only; leave it false on other devices");
}
GRADUS_IMPL void fail_placed_gradient() { throw error("slot.place(storage): a gradient exists; clear it first"); }

}  // namespace gradus::detail
