#pragma once
// The floating-point mode of a thread: how it rounds, whether subnormal numbers count as 0, and what traps. A thread
// that computes for another one takes over its mode, so that results do not depend on the number of threads.

#include <cstdint>

#include "config.hpp"

#if !defined(__SSE__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace gradus::platform {  // shared by all builds

/// The floating-point mode of the thread that made it.
class floating_mode {
 public:
  floating_mode() : bits_(current()) {}

  /// Gives the calling thread this mode.
  void apply() const {
    if (current() != bits_) set(bits_);
  }

 private:
#if defined(__SSE__)
  static constexpr unsigned mask = 0xffc0;  // of the word MXCSR; its other bits are the exceptions that have occurred
#endif
  static std::uint64_t current() {
#if defined(__SSE__)
    return __builtin_ia32_stmxcsr() & mask;
#elif defined(__aarch64__)
    std::uint64_t word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return word;
#else
    return static_cast<std::uint64_t>(std::fegetround());
#endif
  }
  static void set(std::uint64_t bits) {
#if defined(__SSE__)
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~mask) | static_cast<unsigned>(bits));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(bits));
#else
    std::fesetround(static_cast<int>(bits));
#endif
  }

  std::uint64_t bits_;
};

/// Gives the calling thread a mode while it lives, and then the thread's own again.
class floating_mode_scope {
 public:
  explicit floating_mode_scope(const floating_mode& mode) { mode.apply(); }
  floating_mode_scope(const floating_mode_scope&) = delete;
  floating_mode_scope& operator=(const floating_mode_scope&) = delete;
  ~floating_mode_scope() { before_.apply(); }

 private:
  floating_mode before_;
};

}  // namespace gradus::platform
