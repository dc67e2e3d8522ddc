#pragma once
// Floating-point modes that a program may set in its threads, and numbers that show which one a thread has.

#include <array>
#include <bit>
#include <cfenv>
#include <cstdint>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace gradus_test {

/// Each sets a mode of the calling thread other than the usual one.
inline std::vector<void (*)()> unusual_modes() {
  return {
    [] { std::fesetround(FE_UPWARD); }, [] { std::fesetround(FE_DOWNWARD); }, [] { std::fesetround(FE_TOWARDZERO); },
#if defined(__SSE__)
        [] { _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON); },
#elif defined(__aarch64__)
        [] {
          std::uint64_t word = 0;
          __asm__ volatile("mrs %0, fpcr" : "=r"(word));
          __asm__ volatile("msr fpcr, %0" : : "r"(word | std::uint64_t{1} << 24));
        },
#endif
  };
}

/// Bits of rounded quotients and of a product of a subnormal number: each of those modes has its own.
inline std::array<std::uint32_t, 3> marks_of_mode() {
  volatile float one = 1, three = 3, minus_three = -3, subnormal = 0x1p-130f, half = 0.5f;
  return {std::bit_cast<std::uint32_t>(one / three), std::bit_cast<std::uint32_t>(one / minus_three),
          std::bit_cast<std::uint32_t>(subnormal * half)};
}

/// Gives the thread its mode of the beginning again at the end, that of the x87 included.
class usual_mode_again {
 public:
  usual_mode_again() { std::fegetenv(&before_); }
  usual_mode_again(const usual_mode_again&) = delete;
  usual_mode_again& operator=(const usual_mode_again&) = delete;
  ~usual_mode_again() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_{};
};

}  // namespace gradus_test
