#pragma once
#include <cmath>
#include <cstdio>
#include <exception>

#include "../core/error.hpp"
#include "../memory/diagnostics.hpp"
#include "c_api.hpp"

namespace gradus::detail {

GRADUS_IMPL void c_error::take(const char* function) noexcept {
  try {
    throw;
  } catch (const std::exception& e) { std::snprintf(text, sizeof text, "%s: %s", function, e.what()); } catch (...) {
    std::snprintf(text, sizeof text, "%s: an exception of an unknown type", function);
  }
}

GRADUS_IMPL void* lent_memory::do_allocate(const memory_request& request, stream&) {
  const std::size_t bytes = round_up(request.bytes, memory_request::alignment);
  const auto left = static_cast<std::size_t>(end_ - top_);
  if (bytes > left) throw shortage("memory of a handle", request, {.fits = left});
  ++live_;
  return std::exchange(top_, top_ + bytes);
}

GRADUS_IMPL void lent_memory::do_deallocate(void* memory, const memory_request& request, stream&) noexcept {
  auto* const at = static_cast<std::byte*>(memory);
  if (at + round_up(request.bytes, memory_request::alignment) == top_) top_ = at;
  if (--live_ == 0) top_ = begin_;
}

GRADUS_IMPL void check_c_handle(const void* handle, bool is_of_the_model) {
  if (handle == nullptr) throw error("the handle is NULL");
  if (!is_of_the_model) throw error("the handle is not one of this model, or it was freed");
}

GRADUS_IMPL void check_c_memory(std::size_t given, std::size_t needed) {
  if (given < needed)
    throw error("the memory has " + std::to_string(given) + " bytes; a handle needs " + std::to_string(needed));
}

GRADUS_IMPL void check_c_batch(const void* inputs, const void* results, const char* name_of_results, std::size_t count,
                               index_t most, bool takes_fewer) {
  if (inputs == nullptr) throw error("inputs are NULL");
  if (results == nullptr) throw error(std::string(name_of_results) + " are NULL");
  if (count == most || (takes_fewer && count > 0 && count < most)) return;
  throw error(std::to_string(count) + " examples; a batch has " + (takes_fewer ? "1 to " : "") + std::to_string(most));
}

GRADUS_IMPL void check_c_learning_rate(double learning_rate) {
  if (std::isfinite(learning_rate) && learning_rate >= 0) return;
  throw error("the learning rate is " + std::to_string(learning_rate) + "; it must be a number of 0 or more");
}

GRADUS_IMPL void refuse_c_loss(double loss) {
  throw error("the loss is " + std::to_string(loss) + ": inputs, targets or parameters are not finite, or too large");
}

GRADUS_IMPL std::string checked_c_path(const char* path) {
  if (path == nullptr || *path == 0) throw error("the path is NULL or empty");
  return path;
}

}  // namespace gradus::detail
