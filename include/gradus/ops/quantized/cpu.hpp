#pragma once
// The CPU kernels of weights in 8 bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "../../cpu/parallel.hpp"
#include "../../cpu/simd.hpp"
#include "../matmul/cpu.hpp"
#include "quantized.hpp"

namespace gradus {

template <>
struct kernel<op::quantize, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, std::uint8_t* codes, float* scales, const T* from, index_t size) {
    cpu_kit::parallel_elements(ctx, size / quantized_block, 1024, [=](index_t first, index_t last) {
      for (index_t block = first; block < last; ++block)
        scales[block] = quantize(codes + block * quantized_block, from + block * quantized_block);
    });
  }

 private:
  // Returns the scale, NaN if an element is not finite.
  template <class T>
  static float quantize(std::uint8_t* codes, const T* from) {
    float top = 0, none = 0;
    for (index_t i = 0; i < quantized_block; ++i) {
      const auto x = static_cast<float>(from[i]);
      top = std::max(top, std::abs(x));
      none += x - x;
    }
    const float scale = top / 127 + none;
    const float inverse = scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
    for (index_t i = 0; i < quantized_block; ++i)
      codes[i] = static_cast<std::uint8_t>(
          inverse > 0 ? static_cast<int>(std::nearbyint(static_cast<float>(from[i]) * inverse)) : 0);
    return scale;
  }
};

template <>
struct kernel<op::dequantize, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, T* to, const std::uint8_t* codes, const float* scales, index_t size) {
    using namespace cpu_kit;
    using C = compute_type<T>;
    const auto* const numbers = reinterpret_cast<const std::int8_t*>(codes);
    parallel_elements(ctx, size / quantized_block, 1024, [=](index_t first, index_t last) {
      for (index_t block = first; block < last; ++block) {
        const pack<C> scale(scales[block]);
        for (index_t i = block * quantized_block; i < (block + 1) * quantized_block; i += lanes<C>) {
          pack<C> x;
          load_as<C, lanes<C>>(numbers + i, x.v);
          (x * scale).store(to + i);
        }
      }
    });
  }
};

}  // namespace gradus
