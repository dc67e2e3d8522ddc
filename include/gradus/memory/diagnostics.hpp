#pragma once
// What resources say when memory runs out, and when a caller gives back what it does not have.
#include <cstddef>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "resource.hpp"

namespace gradus {

/// "4000000 bytes (3.81 MiB)": exact, and in one unit, for messages whose figures are compared. format_bytes
/// (core/byte_size.hpp) rounds to three digits, for tables.
std::string bytes_text(std::size_t bytes);

/// "activation of matmul", or "activation" for a request from outside of operations, which has no `source`.
std::string purpose_text(category what, std::string_view source);
/// That of a request.
inline std::string purpose_text(const memory_request& request) { return purpose_text(request.what, request.source); }

/// The error that every resource throws when it cannot serve `request`: `who` asked for what, and those figures that
/// are known.
out_of_memory shortage(std::string_view who, const memory_request& request, memory_figures known);

/// Ends the program after one line on stderr: memory that is given back wrongly would be handed out to two users.
[[noreturn]] void memory_misuse(const char* who, const char* what, const void* memory,
                                const memory_request& request) noexcept;

/// Ends the program after one line on stderr: `who` ends while `what` is in use, which would be memory of nobody
/// afterwards.
[[noreturn]] void ended_too_early(const char* who, const std::string& what) noexcept;

namespace detail {
// A block comes back and is live no more; `live` counts the bytes that `who` has handed out.
inline void take_off(std::size_t& live, const char* who, const void* memory, const memory_request& request) noexcept {
  if (request.bytes > live) memory_misuse(who, "is more than is handed out", memory, request);
  live -= request.bytes;
}
}  // namespace detail

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "diagnostics.ipp"
#endif
