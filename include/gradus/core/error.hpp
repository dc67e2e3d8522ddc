#pragma once
// The exceptions of the library: error and out_of_memory.

#include <cstddef>
#include <stdexcept>
#include <string>

namespace gradus {

/// Every error that the library throws at run time. The message is one line: what was wrong, where, and what is right.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a resource knows when memory runs out, in bytes.
struct memory_figures {
  static constexpr std::size_t unknown = static_cast<std::size_t>(-1);
  std::size_t asked = unknown;
  std::size_t live = unknown;    ///< in use
  std::size_t cached = unknown;  ///< cached for reuse
  std::size_t limit = unknown;   ///< largest `live` allowed
  std::size_t fits = unknown;    ///< largest request that would succeed
};

/// A memory resource could not serve a request.
struct out_of_memory : error {
  using error::error;
  out_of_memory(const std::string& message, const memory_figures& known) : error(message), figures(known) {}
  memory_figures figures;
};

}  // namespace gradus
