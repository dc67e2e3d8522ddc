#pragma once
// Math functions of packs. Float functions are polynomials, computed lane by lane, within 4 ulp for every float,
// subnormal results included; docs/guide/numbers.md lists measured bounds.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "simd.hpp"

namespace gradus::inline GRADUS_BUILD {

namespace cpu_math {

template <class T, class F>
GRADUS_INLINE pack<T> by_lane(pack<T> x, F f) {
  for (std::size_t i = 0; i < pack<T>::size; ++i) x.v[i] = f(T{x.v[i]});
  return x;
}
template <class To, class From>
GRADUS_INLINE To bits_as(const From& from) {
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

/// Evaluates a polynomial in x by Horner's rule, highest power first.
template <class T, class... Coefficients>
GRADUS_INLINE pack<T> horner(pack<T> x, T highest, Coefficients... lower) {
  pack<T> p(highest);
  ((p = p * x + pack<T>(lower)), ...);
  return p;
}

using float_pack = pack<float>;
using float_bits = float_pack::mask_native;
GRADUS_INLINE float_pack to_floats(float_bits x) { return float_pack(__builtin_convertvector(x, float_pack::native)); }

/// e^x as the product `high * low` of normal numbers: x * e^x is rounded only once, even if e^x is subnormal.
struct exp_factors {
  float_pack high, low;
  GRADUS_INLINE float_pack product() const { return high * low; }
};

// Adding 1.5 * 2^23 rounds to an integer, held in the low bits of the mantissa.
inline constexpr float rounding_shift = 12582912.0f;

// e^r 2^n with n in the low bits of `shifted`: a degree-7 polynomial, |r| <= ln(2)/2, and 2^n in two halves.
GRADUS_INLINE exp_factors exp_of_reduced(float_pack shifted, float_pack r) {
  float_pack p = horner(r, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f);
  p = p * r * r + r + float_pack(1.0f);
  const float_bits n = bits_as<float_bits>(shifted.v) - 0x4B400000;
  const float_bits half = n >> 1;
  const auto high = bits_as<float_pack::native>((half + 127) << 23);
  const auto low = bits_as<float_pack::native>((n - half + 127) << 23);
  return {p * float_pack(high), float_pack(low)};
}
// e^(x + rest) for -170 <= x <= 89 and a small rest (Cody-Waite reduction). Keeps NaN.
GRADUS_INLINE exp_factors exp_in_factors(float_pack x, float_pack rest) {
  const float_pack shifted = x * float_pack(1.44269504088896341f) + float_pack(rounding_shift);
  const float_pack n = shifted - float_pack(rounding_shift);
  return exp_of_reduced(shifted, (x - n * float_pack(0.693359375f)) - n * float_pack(-2.12194440e-4f) + rest);
}
GRADUS_INLINE exp_factors exp_in_factors(float_pack x) { return exp_in_factors(x, float_pack(0.0f)); }

// The first 12 bits of the mantissa: products of two such numbers are exact.
GRADUS_INLINE float_pack upper_half(float_pack x) {
  return float_pack(bits_as<float_pack::native>(bits_as<float_bits>(x.v) & static_cast<std::int32_t>(0xFFFFF000u)));
}

}  // namespace cpu_math

/// Natural logarithm. Float: reduces the mantissa to [sqrt(1/2), sqrt(2)]; polynomial of the Cephes library.
template <class T>
GRADUS_INLINE pack<T> log(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::log(a); });
  } else {
    using P = pack<float>;
    using bits = cpu_math::float_bits;
    constexpr std::int32_t root_of_half = 0x3F3504F3, all_but_sign = 0x7FFFFFFF;
    const auto subnormal = x < P(0x1p-126f);
    // The sign is cleared, so that nothing overflows; the result for negative x is set below.
    const bits raw = cpu_math::bits_as<bits>(select(subnormal, x * P(0x1p23f), x).v) & all_but_sign;
    const bits exponent = (raw - root_of_half) >> 23;
    const P f = P(cpu_math::bits_as<P::native>(raw - (exponent << 23))) - P(1.0f);
    const P e = select(subnormal, cpu_math::to_floats(exponent) - P(23.0f), cpu_math::to_floats(exponent));
    const P p =
        cpu_math::horner(f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                         -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
    const P z = f * f;
    const P rest = f * z * p + e * P(-2.12194440e-4f) - P(0.5f) * z;
    const P infinite(std::numeric_limits<float>::infinity());
    const P y = select(x < infinite, f + rest + e * P(0.693359375f), x);  // infinity and NaN are unchanged
    return select(x > P(0), y, select(x == P(0), -infinite, P(std::numeric_limits<float>::quiet_NaN())));
  }
}

namespace cpu_math {
/// x^y for positive finite x, half a pack at a time in double: 2^(y log2 x), rounded once.
template <std::size_t Half>
GRADUS_INLINE void pow_half(const float* x, const float* y, float* to) {
  using doubles = pack<double>;
  using bits = doubles::mask_native;
  constexpr std::int64_t root_of_half = 0x3FE6A09E667F3BCD, shift_bits = 0x4338000000000000;
  const doubles one(1.0), shift(0x1.8p52);  // adding it rounds to an integer, in the low bits of the mantissa
  x += Half * doubles::size, y += Half * doubles::size, to += Half * doubles::size;
  const bits raw = bits_as<bits>(doubles::load(x).v);
  const bits exponent = (raw - root_of_half) >> 52;
  const doubles m(bits_as<doubles::native>(raw - (exponent << 52)));
  const doubles e = doubles(bits_as<doubles::native>(exponent + shift_bits)) - shift;
  // log2 m = 2/ln(2) artanh(s), |s| < 0.172: seven terms are within 2^-39.
  const doubles s = (m - one) / (m + one), z = s * s;
  const doubles p =
      horner(z, 2.885390081777926815 / 13, 2.885390081777926815 / 11, 2.885390081777926815 / 9,
             2.885390081777926815 / 7, 2.885390081777926815 / 5, 2.885390081777926815 / 3, 2.885390081777926815);
  const doubles least(-200.0), most(200.0);  // 2 to these powers is 0 and infinity in float
  doubles t = doubles::load(y) * (s * p + e);
  t = select(t < least, least, select(t > most, most, t));
  const doubles shifted = t + shift;
  const doubles r = (t - (shifted - shift)) * doubles(0.693147180559945309417);
  const doubles q = horner(r, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
  const bits n = bits_as<bits>(shifted.v) - shift_bits;
  doubles(bits_as<doubles::native>(bits_as<bits>(q.v) + (n << 52))).store(to);
}
// Not inline: its code is long, and derivatives call it twice.
[[gnu::noinline]] inline void pow_floats(const float* x, const float* y, float* to) {
  const float_pack a = float_pack::load(x), b = float_pack::load(y), zero(0.0f);
  if (all(a > zero && a < float_pack(std::numeric_limits<float>::infinity()) && b - b == zero)) {
    pow_half<0>(x, y, to);
    pow_half<1>(x, y, to);
  } else {
    for (std::size_t i = 0; i < float_pack::size; ++i) to[i] = std::pow(x[i], y[i]);
  }
}
}  // namespace cpu_math

/// x^y, with the C library's results at zeros, infinities, NaN and below zero.
template <class T>
GRADUS_INLINE pack<T> pow(pack<T> x, pack<T> y) {
  T a[pack<T>::size], b[pack<T>::size];
  x.store(a);
  y.store(b);
  if constexpr (std::is_same_v<T, float>) cpu_math::pow_floats(a, b, a);
  else
    for (std::size_t i = 0; i < pack<T>::size; ++i) a[i] = std::pow(a[i], b[i]);
  return pack<T>::load(a);
}
/// |x|: clears the sign.
template <class T>
GRADUS_INLINE pack<T> abs(pack<T> x) {
  using bits = typename pack<T>::mask_native;
  using integer = typename pack<T>::integer;
  constexpr integer all_but_sign =
      sizeof(T) == 8 ? static_cast<integer>(~(std::uint64_t{1} << 63)) : integer{0x7FFFFFFF};
  return pack<T>(cpu_math::bits_as<typename pack<T>::native>(cpu_math::bits_as<bits>(x.v) & all_but_sign));
}

/// Square root, correctly rounded, by the vector instruction; compilers do not use it for std::sqrt, which sets errno.
template <class T>
GRADUS_INLINE pack<T> sqrt(pack<T> x) {
#if defined(__SSE2__) || defined(__aarch64__)
  // Compiler builtins, because <immintrin.h> takes a third of a second to parse.
  constexpr bool is_float = std::is_same_v<T, float>;
#if defined(__AVX512F__)
  constexpr std::size_t bytes = 64;
#elif defined(__AVX__)
  constexpr std::size_t bytes = 32;
#else
  constexpr std::size_t bytes = 16;
#endif
  using floats __attribute__((vector_size(bytes))) = float;
  using doubles __attribute__((vector_size(bytes))) = double;
  using part = std::conditional_t<is_float, floats, doubles>;  // nvcc does not accept T here
  part parts[sizeof(x.v) / bytes];
  std::memcpy(parts, &x.v, sizeof(parts));
  for (part& p : parts) {
#if defined(__AVX512F__) && defined(__clang__)
    if constexpr (is_float) p = __builtin_ia32_sqrtps512(p, 4);  // 4: the current rounding mode
    else p = __builtin_ia32_sqrtpd512(p, 4);
#elif defined(__AVX512F__)
    if constexpr (is_float) p = __builtin_ia32_sqrtps512_mask(p, p, -1, 4);
    else p = __builtin_ia32_sqrtpd512_mask(p, p, -1, 4);
#elif defined(__AVX__)
    if constexpr (is_float) p = __builtin_ia32_sqrtps256(p);
    else p = __builtin_ia32_sqrtpd256(p);
#elif defined(__SSE2__)
    if constexpr (is_float) p = __builtin_ia32_sqrtps(p);
    else p = __builtin_ia32_sqrtpd(p);
#else
    if constexpr (is_float) p = vsqrtq_f32(p);
    else p = vsqrtq_f64(p);
#endif
  }
  std::memcpy(&x.v, parts, sizeof(parts));
  return x;
#else
  return cpu_math::by_lane(x, [](T a) { return std::sqrt(a); });
#endif
}

/// e^x. Overflows to infinity, underflows through the subnormals to 0, keeps NaN.
template <class T>
GRADUS_INLINE pack<T> exp(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::exp(a); });
  } else {
    const pack<float> low(-104.0f), high(89.0f);
    x = select(x < low, low, x);
    return cpu_math::exp_in_factors(select(x > high, high, x)).product();
  }
}

/// e^x for x <= 0, as accurate as results of type Stored need. For 16 bits: half the instructions, relative error 1e-5,
/// 0 below -87. Keeps NaN.
template <class Stored, class T>
GRADUS_INLINE pack<T> falling_exp(pack<T> x) {
  if constexpr (sizeof(Stored) > 2 || !std::is_same_v<T, float>) {
    return exp(x);
  } else {
    using P = pack<float>;
    // 2^t = 2^n 2^r: n in the low bits of `shifted`; a polynomial for 2^r, |r| <= 1/2, from Chebyshev nodes.
    const P t = x * P(1.44269504088896341f);
    const P shifted = t + P(cpu_math::rounding_shift);
    const P r = t - (shifted - P(cpu_math::rounding_shift));
    const P p = cpu_math::horner(r, 9.6663685e-3f, 5.5921976e-2f, 2.4022349e-1f, 6.9312105e-1f, 1.0f);
    const auto power = (cpu_math::bits_as<cpu_math::float_bits>(shifted.v) - (0x4B400000 - 127)) << 23;
    return select(x < P(-87.0f), P(0), p * P(cpu_math::bits_as<P::native>(power)));
  }
}

/// Hyperbolic tangent. Float: an odd polynomial below 0.625 (Cephes), 1 - 2/(e^2x + 1) above.
template <class T>
GRADUS_INLINE pack<T> tanh(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::tanh(a); });
  } else {
    const pack<float> one(1.0f);
    const pack<float> a = abs(x);
    const pack<float> large = one - pack<float>(2.0f) / (exp(a + a) + one);
    const pack<float> z = x * x;
    const pack<float> p = cpu_math::horner(z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                           1.33314422036e-1f, -3.33332819422e-1f);
    const pack<float> of_small = x * (z * p) + x;
    return select(x == pack<float>(0), x,
                  select(a < pack<float>(0.625f), of_small, select(x < pack<float>(0), -large, large)));
  }
}

/// 1 / (1 + e^-x), computed from e^-|x|: no cancellation in either tail. Keeps NaN.
template <class T>
GRADUS_INLINE pack<T> sigmoid(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::sigmoid(a); });
  } else {
    const pack<float> one(1.0f), low(-170.0f);
    const auto negative = x < pack<float>(0);
    const pack<float> down = -abs(x);
    const auto e = cpu_math::exp_in_factors(select(down < low, low, down));
    return select(negative, e.high, one) / (one + e.product()) * select(negative, e.low, one);
  }
}

namespace cpu_math {
// x * e / (1 + e) for negative x, else x / (1 + e): x sigmoid(v) with e = e^-|v|, v of the sign of x.
GRADUS_INLINE float_pack times_sigmoid(float_pack x, float_pack lowest, const exp_factors& e) {
  const float_pack one(1.0f);
  const auto negative = x < float_pack(0);
  const float_pack tail = select(x < lowest, lowest, x) * e.high;
  return select(negative, tail, x) / (one + e.product()) * select(negative, e.low, one);
}
}  // namespace cpu_math

/// x sigmoid(x); -0 at minus infinity.
template <class T>
GRADUS_INLINE pack<T> silu(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::silu(a); });
  } else {
    const pack<float> low(-170.0f), down = -abs(x);
    return cpu_math::times_sigmoid(x, low, cpu_math::exp_in_factors(select(down < low, low, down)));
  }
}

/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(v) with v = x (c1 + c3 x^2); -0 at minus infinity. In the
/// tail an error of v is a relative error of the result, so v is computed in two parts.
template <class T>
GRADUS_INLINE pack<T> gelu(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::gelu(a); });
  } else {
    using cpu_math::upper_half;
    using P = pack<float>;
    constexpr double c1 = 1.59576912160573071176, c3 = 0.07135481627260024878;
    constexpr float c1_high = 1634.0f / 1024, c3_high = 292.0f / 4096;  // 11 and 9 bits: exact products
    const P most(12.0f);                                                // e^-v underflows there
    const P size = abs(x);
    const P a = select(size > most, most, size);
    // s = a^2 = high + rest, w = c1 + c3 s = even + odd with `even` a multiple of 2^-8; v = a w.
    const P a_high = upper_half(a), a_rest = a - a_high;
    const P s = a_high * a_high, s_rest = a_rest * (a + a_high);
    const P s_high = upper_half(s);
    const P t = P(c3_high) * s_high;
    const P t_rest = P(c3_high) * ((s - s_high) + s_rest) + P(static_cast<float>(c3 - double{c3_high})) * (a * a);
    const P grid(49152.0f);
    const P even = (P(c1_high) + t + grid) - grid;
    const P odd = ((P(c1_high) - even) + t) + (t_rest + P(static_cast<float>(c1 - double{c1_high})));
    const P v = a_high * even, v_rest = a_rest * even + a * odd;
    return cpu_math::times_sigmoid(x, -most, cpu_math::exp_in_factors(-v, -v_rest));
  }
}

namespace cpu_math {
// With w = 2 a / (a + 3): e^(a^2/2) (a + 3) times the upper tail of the standard normal distribution at a, 0 <= a <=
// 14.5. A polynomial in w - 1 from Chebyshev nodes, error 1e-9.
GRADUS_INLINE float_pack tail_polynomial(float_pack w) {
  const float_pack u = w - float_pack(1.0f);
  return horner(u, 5.53559663e-5f, 1.331259088e-4f, -2.445826664e-4f, -1.034222059e-3f, 1.024135711e-3f,
                6.969813131e-3f, -1.046229376e-2f, -4.726274528e-2f, 2.300176777e-1f, -5.093319895e-1f,
                7.290836907e-1f);
}
// e^(-a^2/2), 0 <= a <= 14.5: the square in two parts, because an error of the exponent is a relative error of e.
GRADUS_INLINE exp_factors normal_density_factors(float_pack a) {
  const float_pack high = upper_half(a), half(0.5f);
  return exp_in_factors(-(half * (high * high)), -(half * ((a - high) * (a + high))));
}
// The standard normal distribution function for |x| < 0.7, where 1 - tail would cancel.
GRADUS_INLINE float_pack normal_cdf_near_zero(float_pack x) {
  const float_pack z = x * x;
  const float_pack p = horner(z, 1.042779776e-4f, -1.182535892e-3f, 9.972708268e-3f, -6.649032722e-2f, 3.989422799e-1f);
  return float_pack(0.5f) + x * p;
}
}  // namespace cpu_math

/// The error function.
template <class T>
GRADUS_INLINE pack<T> erf(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::erf(a); });
  } else {
    using P = pack<float>;
    const P most(5.0f), size = abs(x);
    const P a = select(size > most, most, size);
    const P b = a * P(1.41421356237309505f);
    const P d = P(2.0f) / (b + P(3.0f));
    const P large = P(1.0f) - exp(-(a * a)) * cpu_math::tail_polynomial(b * d) * d;
    const P z = x * x;
    const P p = cpu_math::horner(z, -6.384235407e-4f, 5.062407092e-3f, -2.68089851e-2f, 1.128286577e-1f,
                                 -3.76125837e-1f, 0.128379162f);
    return select(size < P(0.8f), x + x * p, select(x < P(0), -large, large));
  }
}

/// The standard normal distribution function: P(Z < x).
template <class T>
GRADUS_INLINE pack<T> normal_cdf(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::normal_cdf(a); });
  } else {
    const pack<float> most(14.5f), size = abs(x);
    const pack<float> a = select(size > most, most, size);
    const auto e = cpu_math::normal_density_factors(a);
    const pack<float> d = pack<float>(1.0f) / (a + pack<float>(3.0f));
    const pack<float> tail = cpu_math::tail_polynomial((a + a) * d) * d * e.high * e.low;
    return select(size < pack<float>(0.6f), cpu_math::normal_cdf_near_zero(x),
                  select(x < pack<float>(0), tail, pack<float>(1.0f) - tail));
  }
}
/// x/2 (1 + erf(x / sqrt(2))) = x P(Z < x); -0 at minus infinity.
template <class T>
GRADUS_INLINE pack<T> gelu_erf(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::gelu_erf(a); });
  } else {
    const pack<float> most(14.5f), size = abs(x);
    const pack<float> a = select(size > most, most, size);
    const auto e = cpu_math::normal_density_factors(a);
    const pack<float> w = (a + a) / (a + pack<float>(3.0f));
    // |x| times the tail; the errors of w in the two factors cancel.
    const pack<float> tail = pack<float>(0.5f) * w * e.high * cpu_math::tail_polynomial(w) * e.low;
    return select(size < pack<float>(0.6f), x * cpu_math::normal_cdf_near_zero(x),
                  select(x < pack<float>(0), -tail, x - tail));
  }
}

}  // namespace gradus::inline GRADUS_BUILD
