// bf16 and f16 against a reference that knows nothing of bit tricks: the value of a pattern comes from its definition,
// with ldexp, and the nearest pattern is found by comparing distances in double, in which all of them are exact.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <gradus/core/dtype.hpp>
#include <limits>

using namespace gradus;

namespace {

template <class T>
struct layout;
template <>
struct layout<bf16> {
  static constexpr int exponent_bits = 8, mantissa_bits = 7;
};
template <>
struct layout<f16> {
  static constexpr int exponent_bits = 5, mantissa_bits = 10;
};

// The value a pattern stands for; infinity where the exponent is all ones, which overflow compares against.
template <class T>
double value_of(std::uint32_t pattern) {
  constexpr int e_bits = layout<T>::exponent_bits, m_bits = layout<T>::mantissa_bits, bias = (1 << (e_bits - 1)) - 1;
  const bool negative = (pattern >> 15) != 0;
  const int exponent = static_cast<int>((pattern >> m_bits) & ((1u << e_bits) - 1));
  const int mantissa = static_cast<int>(pattern & ((1u << m_bits) - 1));
  double value;
  if (exponent == (1 << e_bits) - 1)
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0) value = std::ldexp(mantissa, 1 - bias - m_bits);
  else value = std::ldexp(mantissa + (1 << m_bits), exponent - bias - m_bits);
  return negative ? -value : value;
}

template <class T>
constexpr std::uint32_t infinity_pattern = ((1u << layout<T>::exponent_bits) - 1) << layout<T>::mantissa_bits;

// The bit that a quiet NaN has, and a signalling one has not.
template <class T>
constexpr std::uint32_t quiet_bit = 1u << (layout<T>::mantissa_bits - 1);

// Round to nearest, ties to even, of a float that lies between the patterns `below` and `below + 1` (both positive).
template <class T>
std::uint32_t nearest(std::uint32_t below, double x) {
  const double low = value_of<T>(below);
  // One step past the largest finite value is where the infinity stands, as far as rounding is concerned.
  const double high = below + 1 == infinity_pattern<T> ? low + (low - value_of<T>(below - 1)) : value_of<T>(below + 1);
  if (x - low < high - x) return below;
  if (x - low > high - x) return below + 1;
  return below % 2 == 0 ? below : below + 1;
}

}  // namespace

TEST_CASE_TEMPLATE(
    "every bit pattern has the value its definition gives, and comes back through float, NaN as quiet ones", T, bf16,
    f16) {
  int wrong_value = 0, wrong_bits = 0;
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const T x = T::from_bits(static_cast<std::uint16_t>(pattern));
    const auto as_float = static_cast<float>(x);
    const double expected = value_of<T>(pattern);
    if (std::isnan(expected)) wrong_value += !std::isnan(as_float);
    else
      wrong_value += !(static_cast<double>(as_float) == expected && std::signbit(as_float) == std::signbit(expected));
    wrong_bits += T(as_float).bits != (std::isnan(expected) ? pattern | quiet_bit<T> : pattern);
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_bits == 0);
}

TEST_CASE_TEMPLATE("floats round to the nearest value, ties to even, around every value and every midpoint", T, bf16,
                   f16) {
  int wrong = 0;
  for (std::uint32_t below = 0; below < infinity_pattern<T>; ++below) {
    const double low = value_of<T>(below);
    const double high =
        below + 1 == infinity_pattern<T> ? low + (low - value_of<T>(below - 1)) : value_of<T>(below + 1);
    const float middle = static_cast<float>(low / 2 + high / 2);
    const auto start = static_cast<float>(low);
    const float infinity = std::numeric_limits<float>::infinity();
    for (const float x : {start, std::nextafter(start, infinity), std::nextafter(middle, 0.0f), middle,
                          std::nextafter(middle, infinity)}) {
      const std::uint32_t expected = nearest<T>(below, static_cast<double>(x));
      wrong += T(x).bits != expected;
      wrong += T(-x).bits != (expected | 0x8000u);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("infinities stay, and what is too large becomes one", T, bf16, f16) {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(T(infinity).bits == infinity_pattern<T>);
  CHECK(T(-infinity).bits == (infinity_pattern<T> | 0x8000u));
  CHECK(T(std::numeric_limits<float>::max()).bits == infinity_pattern<T>);
}

TEST_CASE("the largest finite f16 is 65504, and 65520 is the first to overflow") {
  CHECK(static_cast<float>(f16(65504.0f)) == 65504.0f);
  CHECK(static_cast<float>(f16(std::nextafter(65520.0f, 0.0f))) == 65504.0f);
  CHECK(std::isinf(static_cast<float>(f16(65520.0f))));
}

TEST_CASE_TEMPLATE("every NaN stays a NaN and keeps its sign", T, bf16, f16) {
  int wrong = 0;
  for (std::uint32_t payload = 1; payload < (1u << 23); payload = payload < 4096 ? payload + 1 : payload + 977)
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const T x(std::bit_cast<float>(sign | 0x7F800000u | payload));
      wrong += !std::isnan(static_cast<float>(x)) || (x.bits >> 15) != (sign >> 31);
    }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("zeros keep their sign, and float subnormals go to the nearest value", T, bf16, f16) {
  CHECK(T(0.0f).bits == 0);
  CHECK(T(-0.0f).bits == 0x8000u);
  CHECK(T(std::numeric_limits<float>::denorm_min()).bits == 0);
  CHECK(T(-std::numeric_limits<float>::denorm_min()).bits == 0x8000u);
}

TEST_CASE("conversions are usable by the compiler") {
  static_assert(bf16(1.0f).bits == 0x3F80);
  static_assert(f16(1.0f).bits == 0x3C00);
  static_assert(static_cast<float>(f16::from_bits(1)) == 0x1p-24f);
  CHECK(dtype_name<bf16>() == "bf16");
  CHECK(std::is_same_v<compute_type<f16>, float>);
  CHECK(std::is_same_v<compute_type<double>, double>);
  CHECK(is_floating<bf16>);
  CHECK_FALSE(is_floating<std::int32_t>);
}
