#pragma once
// Memory that is kept for reuse is poisoned meanwhile where the program is built with the address sanitizer
// (-fsanitize=address), so that a use of it is reported as a use of freed memory is. Elsewhere nothing happens. A
// sanitizer build is a whole program: build all of its files with the flag, because one file's pool would hand out what
// another file's has poisoned.
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
/// These bytes may be used again.
constexpr void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#if GRADUS_ADDRESS_SANITIZER
  if (!std::is_constant_evaluated()) __asan_unpoison_memory_region(memory, bytes);
#endif
}
/// True where a use of this byte would be reported.
inline bool is_poisoned([[maybe_unused]] const void* memory) {
#if GRADUS_ADDRESS_SANITIZER
  return __asan_address_is_poisoned(memory) != 0;
#else
  return false;
#endif
}

// The same for memory of a kind of stream, which the host may not be able to address.
template <class Stream>
constexpr void poison_for(const void* memory, std::size_t bytes) noexcept {
  if constexpr (requires { requires Stream::host_memory; }) poison(memory, bytes);
}
template <class Stream>
constexpr void unpoison_for(const void* memory, std::size_t bytes) noexcept {
  if constexpr (requires { requires Stream::host_memory; }) unpoison(memory, bytes);
}

}  // namespace gradus::detail
