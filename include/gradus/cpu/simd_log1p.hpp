#pragma once
// expm1, log1p and softplus of packs: exponentials and logarithms near 0 and 1 without cancellation.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "simd_math.hpp"

namespace gradus::inline GRADUS_BUILD {

/// e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with |r| <= ln(2)/2 and 2^n in two halves. Keeps NaN and the sign of zero.
template <class T>
GRADUS_INLINE pack<T> expm1(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::expm1(a); });
  } else {
    using P = pack<float>;
    using cpu_math::bits_as;
    using bits = cpu_math::float_bits;
    const P low(-104.0f), high(89.0f), shift(cpu_math::rounding_shift);
    P a = select(x < low, low, x);
    a = select(a > high, high, a);
    const P shifted = a * P(1.44269504088896341f) + shift, n = shifted - shift;
    const P r = (a - n * P(0.693359375f)) - n * P(-2.12194440e-4f);
    const P p = cpu_math::horner(r, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f);
    const bits power = bits_as<bits>(shifted.v) - 0x4B400000, half = power >> 1, rest = power - half;
    const P first(bits_as<P::native>((half + 127) << 23)), second(bits_as<P::native>((rest + 127) << 23));
    const P one_over_second(bits_as<P::native>((127 - rest) << 23));
    return select(x == P(0), x, ((p * r * r + r) * first + (first - one_over_second)) * second);
  }
}

/// log(1 + x) = log(u) + (x - (u - 1)) / u, where u is 1 + x rounded. Keeps NaN and the sign of zero.
template <class T>
GRADUS_INLINE pack<T> log1p(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return std::log1p(a); });
  } else {
    using P = pack<float>;
    const P one(1.0f), u = one + x;
    const auto corrected = u > P(0) && u < P(std::numeric_limits<float>::infinity());
    return select(x == P(0), x, log(u) + select(corrected, (x - (u - one)) / u, P(0)));
  }
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|). Keeps NaN.
template <class T>
GRADUS_INLINE pack<T> softplus(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return cpu_math::by_lane(x, [](T a) { return math::softplus(a); });
  } else {
    const pack<float> zero(0);
    return select(x > zero, x, zero) + log1p(exp(-abs(x)));
  }
}

}  // namespace gradus::inline GRADUS_BUILD
