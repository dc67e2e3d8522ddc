#pragma once
// In a build with the address sanitizer (-fsanitize=address), poisons memory that is kept for reuse: uses are reported
// like a use after free. Build all files with the flag: one file's pool may allocate what another file's has poisoned.

#include <cstddef>
#include <type_traits>

#include "../core/config.hpp"

#if GRADUS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace gradus::detail {

/// Whether poison() has an effect.
inline constexpr bool poisons = GRADUS_ADDRESS_SANITIZER != 0;

/// Reports uses of these bytes until unpoison().
constexpr void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if GRADUS_ADDRESS_SANITIZER
  if (!std::is_constant_evaluated()) __asan_poison_memory_region(memory, bytes);
#endif
}
/// Ends poison() of these bytes: they may be used again.
constexpr void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if GRADUS_ADDRESS_SANITIZER
  if (!std::is_constant_evaluated()) __asan_unpoison_memory_region(memory, bytes);
#endif
}
/// True if a use of this byte would be reported.
inline bool is_poisoned([[maybe_unused]] const void* memory) {
#if GRADUS_ADDRESS_SANITIZER
  return __asan_address_is_poisoned(memory) != 0;
#else
  return false;
#endif
}

// poison and unpoison for memory of a type of stream, which the host may not be able to address: then nothing.
template <class Stream>
constexpr void poison_for(const void* memory, std::size_t bytes) noexcept {
  if constexpr (requires { requires Stream::host_memory; }) poison(memory, bytes);
}
template <class Stream>
constexpr void unpoison_for(const void* memory, std::size_t bytes) noexcept {
  if constexpr (requires { requires Stream::host_memory; }) unpoison(memory, bytes);
}

}  // namespace gradus::detail
