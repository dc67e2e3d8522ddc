#pragma once
// What resources say when memory runs out, and when a caller gives back what it does not have.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../core/error.hpp"
#include "resource.hpp"

namespace gradus {

/// "4000000 bytes (3.81 MiB)": exact, and in one unit, for messages whose figures are compared. format_bytes
/// (core/byte_size.hpp) rounds to three digits, for tables.
inline std::string bytes_text(std::size_t bytes) {
  std::array<char, 64> text{};
  const int length =
      std::snprintf(text.data(), text.size(), "%zu bytes (%.2f MiB)", bytes, static_cast<double>(bytes) / (1 << 20));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

/// "activation of matmul", or "activation" for a request from outside of operations, which has no `source`.
inline std::string purpose_text(category what, std::string_view source) {
  std::string text(category_name(what));
  return source.empty() ? text : text.append(" of ").append(source);
}
/// That of a request.
inline std::string purpose_text(const memory_request& request) { return purpose_text(request.what, request.source); }

/// The error that every resource throws when it cannot serve `request`: `who` asked for what, and those figures that
/// are known.
inline out_of_memory shortage(std::string_view who, const memory_request& request, memory_figures known) {
  known.asked = request.bytes;
  std::string text(who);
  text += ": asked " + bytes_text(request.bytes) + " for " + purpose_text(request);
  const char* separator = "; ";
  const auto add = [&](const char* name, std::size_t bytes) {
    if (bytes == memory_figures::unknown) return;
    text.append(separator).append(name).append(" ").append(bytes_text(bytes));
    separator = ", ";
  };
  add("live", known.live);
  add("cached", known.cached);
  add("limit", known.limit);
  text += known.fits == memory_figures::unknown
              ? "; there is no room of that size; ask for less, such as a smaller batch"
              : "; at most " + bytes_text(known.fits) + " would fit";
  return out_of_memory(text, known);
}

/// Ends the program after one line on stderr: memory that is given back wrongly would be handed out to two users.
[[noreturn]] inline void memory_misuse(const char* who, const char* what, const void* memory,
                                       const memory_request& request) noexcept {
  const std::string_view kind = category_name(request.what);
  std::fprintf(stderr, "%s: %p %s (given back as request %zu, %zu bytes, %.*s%s%.*s)\n", who, memory, what, request.id,
               request.bytes, static_cast<int>(kind.size()), kind.data(), request.source.empty() ? "" : " of ",
               static_cast<int>(request.source.size()), request.source.data());
  std::abort();
}

/// Ends the program after one line on stderr: `who` ends while `what` is in use, which would be memory of nobody
/// afterwards.
[[noreturn]] inline void ended_too_early(const char* who, const std::string& what) noexcept {
  std::fprintf(stderr, "%s ends while %s are in use: tensors, tapes and optimizers must end before their memory does\n",
               who, what.c_str());
  std::abort();
}

namespace detail {
// A block comes back and is live no more; `live` counts the bytes that `who` has handed out.
inline void take_off(std::size_t& live, const char* who, const void* memory, const memory_request& request) noexcept {
  if (request.bytes > live) memory_misuse(who, "is more than is handed out", memory, request);
  live -= request.bytes;
}
}  // namespace detail

}  // namespace gradus
