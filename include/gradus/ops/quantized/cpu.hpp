#pragma once
// The CPU kernels of weights in 8 bits.

#include <cstdint>

#include "../../core/quantize_block.hpp"
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
        scales[block] =
            detail::quantize_block<quantized_block>(codes + block * quantized_block, from + block * quantized_block);
    });
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
