#pragma once
// The messages of resources when memory runs out, or when a caller frees memory wrongly.

#include <cstddef>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "resource.hpp"

namespace gradus {

/// "4000000 bytes (3.81 MiB)": exact, for messages; format_bytes (core/byte_size.hpp) rounds, for tables.
std::string bytes_text(std::size_t bytes);

/// "activation of matmul", or "activation" for a request outside of operations, without `source`.
std::string purpose_text(category what, std::string_view source);
/// The purpose of a request.
inline std::string purpose_text(const memory_request& request) { return purpose_text(request.what, request.source); }

/// The error that a resource throws if it cannot serve `request`: `who` requested what, and the known figures.
out_of_memory shortage(std::string_view who, const memory_request& request, memory_figures known);

/// Ends the program with one line on stderr: memory freed wrongly would be allocated twice.
[[noreturn]] void memory_misuse(const char* who, const char* what, const void* memory,
                                const memory_request& request) noexcept;

/// Ends the program with one line on stderr: `who` is destroyed while `what` is in use.
[[noreturn]] void ended_too_early(const char* who, const std::string& what) noexcept;

namespace detail {
// Subtracts a freed block from `live`, the bytes that `who` has allocated.
inline void take_off(std::size_t& live, const char* who, const void* memory, const memory_request& request) noexcept {
  if (request.bytes > live) memory_misuse(who, "is larger than all live bytes", memory, request);
  live -= request.bytes;
}
}  // namespace detail

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "diagnostics.ipp"
#endif
