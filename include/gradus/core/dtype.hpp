#pragma once
// Element types. bf16 and f16 are storage formats: exactly convertible to float, rounded from float to nearest even.

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "config.hpp"

namespace gradus {

#if defined(__CUDACC__)
namespace detail {
// The GPU's instructions. They return what the functions below return, except for the bits of a NaN.
#if GRADUS_GPU_PASS
__device__ inline std::uint16_t bf16_on_gpu(float x) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline std::uint16_t f16_on_gpu(float x) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline float float_on_gpu(std::uint16_t f16_bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(f16_bits));
  return x;
}
#endif
}  // namespace detail
#endif

/// bfloat16: the upper half of a float (8 exponent bits, 7 mantissa bits).
struct bf16 {
  std::uint16_t bits = 0;

  constexpr bf16() = default;
  /// Rounds to nearest even; infinities stay infinite, NaN becomes quiet.
  GRADUS_HD constexpr explicit bf16(float value) : bits(rounded(value)) {}
  GRADUS_HD constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static GRADUS_HD constexpr bf16 from_bits(std::uint16_t b) {
    bf16 r;
    r.bits = b;
    return r;
  }

 private:
  static GRADUS_HD constexpr std::uint16_t rounded(float value) {
#if GRADUS_GPU_PASS
    if (!std::is_constant_evaluated()) return detail::bf16_on_gpu(value);
#endif
    return from_float(std::bit_cast<std::uint32_t>(value));
  }
  static GRADUS_HD constexpr std::uint16_t from_float(std::uint32_t u) {
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)  // NaN: keep the upper payload bits, set the quiet bit
      return static_cast<std::uint16_t>((u >> 16) | 0x40u);
    return static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
  }
};

/// IEEE binary16 (5 exponent bits, 10 mantissa bits; largest finite value 65504).
struct f16 {
  std::uint16_t bits = 0;

  constexpr f16() = default;
  /// Rounds to nearest even; overflow becomes infinity, subnormals are kept, NaN becomes quiet.
  GRADUS_HD constexpr explicit f16(float value) : bits(rounded(value)) {}
  GRADUS_HD constexpr operator float() const {
#if GRADUS_GPU_PASS
    if (!std::is_constant_evaluated()) return detail::float_on_gpu(bits);
#endif
    return std::bit_cast<float>(to_float(bits));
  }
  static GRADUS_HD constexpr f16 from_bits(std::uint16_t b) {
    f16 r;
    r.bits = b;
    return r;
  }

 private:
  static GRADUS_HD constexpr std::uint16_t rounded(float value) {
#if GRADUS_GPU_PASS
    if (!std::is_constant_evaluated()) return detail::f16_on_gpu(value);
#endif
    return from_float(std::bit_cast<std::uint32_t>(value));
  }
  static GRADUS_HD constexpr std::uint16_t from_float(std::uint32_t u) {
    const std::uint32_t sign = (u >> 16) & 0x8000u;
    const std::uint32_t magnitude = u & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)  // NaN: keep the upper payload bits, set the quiet bit
      return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);  // rounds to >= 65520
    const std::uint32_t exponent = magnitude >> 23;
    if (exponent >= 113) {  // normal: rebias by 112 and round off 13 bits
      const std::uint32_t rebased = magnitude - (112u << 23);
      return static_cast<std::uint16_t>(sign | ((rebased + 0xFFFu + ((rebased >> 13) & 1u)) >> 13));
    }
    if (exponent < 102) return static_cast<std::uint16_t>(sign);  // below half of the smallest subnormal
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    const std::uint32_t shift = 126u - exponent;
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1u << shift) - 1u);
    const std::uint32_t half = 1u << (shift - 1u);
    const std::uint32_t up = (rest > half || (rest == half && (kept & 1u) != 0u)) ? 1u : 0u;
    return static_cast<std::uint16_t>(sign | (kept + up));
  }
  static GRADUS_HD constexpr std::uint32_t to_float(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
    std::uint32_t exponent = (h >> 10) & 0x1Fu;
    std::uint32_t mantissa = h & 0x3FFu;
    if (exponent == 31) return sign | 0x7F800000u | (mantissa << 13) | (mantissa == 0 ? 0u : 0x400000u);
    if (exponent == 0) {
      if (mantissa == 0) return sign;
      exponent = 113;
      while ((mantissa & 0x400u) == 0u) {
        mantissa <<= 1;
        --exponent;
      }
      return sign | (exponent << 23) | ((mantissa & 0x3FFu) << 13);
    }
    return sign | ((exponent + 112u) << 23) | (mantissa << 13);
  }
};

/// True for element types that have gradients.
template <class T>
inline constexpr bool is_floating = std::is_floating_point_v<T> || std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

/// The type in which kernels compute elements of type T: float for bf16 and f16, otherwise T.
template <class T>
using compute_type = std::conditional_t<std::is_same_v<T, bf16> || std::is_same_v<T, f16>, float, T>;

/// True for bf16 and f16: storing a computed value rounds it.
template <class T>
inline constexpr bool is_rounded = !std::is_same_v<T, compute_type<T>>;

/// Converts an element: floating-point numbers are rounded to nearest, or truncated to an integer.
template <class To, class From>
GRADUS_HD constexpr To convert_element(From x) {
  return static_cast<To>(static_cast<compute_type<To>>(static_cast<compute_type<From>>(x)));
}

namespace detail {
template <class T, class... Ts>
inline constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);
}  // namespace detail

/// Element types a tensor can hold.
template <class T>
inline constexpr bool is_element =
    detail::is_one_of<T, double, float, bf16, f16, std::int64_t, std::int32_t, std::uint16_t, std::uint8_t, bool>;

/// Name of an element type, as printed with tensors and written to files.
template <class T>
constexpr std::string_view dtype_name() {
  if constexpr (std::is_same_v<T, double>) return "f64";
  else if constexpr (std::is_same_v<T, float>) return "f32";
  else if constexpr (std::is_same_v<T, bf16>) return "bf16";
  else if constexpr (std::is_same_v<T, f16>) return "f16";
  else if constexpr (std::is_same_v<T, std::int64_t>) return "i64";
  else if constexpr (std::is_same_v<T, std::int32_t>) return "i32";
  else if constexpr (std::is_same_v<T, std::uint16_t>) return "u16";
  else if constexpr (std::is_same_v<T, std::uint8_t>) return "u8";
  else {
    static_assert(std::is_same_v<T, bool>, "dtype_name<T>(): T must be one of f64 f32 bf16 f16 i64 i32 u16 u8 bool");
    return "bool";
  }
}

}  // namespace gradus
