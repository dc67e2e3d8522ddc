#pragma once
// The rule by which a block of elements becomes 8-bit codes with a common scale.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gradus::detail {

/// Writes the codes of `Size` elements, whose bits are int8, and returns their scale: a 127th of the largest magnitude,
/// or NaN, with codes of 0, if an element is not finite. Codes are the elements by the scale, rounded to nearest even;
/// all 0 where the scale is below the smallest normal float.
template <auto Size, class T>
float quantize_block(std::uint8_t* codes, const T* from) {
  float top = 0, none = 0;
  for (decltype(Size) i = 0; i < Size; ++i) {
    const auto x = static_cast<float>(from[i]);
    top = std::max(top, std::abs(x));
    none += x - x;
  }
  const float scale = top / 127 + none;
  const float inverse = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
  for (decltype(Size) i = 0; i < Size; ++i)
    codes[i] = static_cast<std::uint8_t>(
        inverse > 0 ? static_cast<int>(std::nearbyint(static_cast<float>(from[i]) * inverse)) : 0);
  return scale;
}

}  // namespace gradus::detail
