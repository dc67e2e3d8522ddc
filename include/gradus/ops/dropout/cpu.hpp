#pragma once
// The CPU kernel of dropout.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/convert.hpp"
#include "../../cpu/philox_lanes.hpp"
#include "../../cpu/rows.hpp"
#include "dropout.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The mask of elements that are kept.
template <class C>
GRADUS_INLINE pack_mask<C> at_least(const std::uint16_t* halves, std::uint32_t threshold) {
  using integers = typename pack<C>::mask_native;
  typename vector_of<std::uint16_t, lanes<C>>::type h;
  std::memcpy(&h, halves, sizeof h);
  return {__builtin_convertvector(h, integers) >= static_cast<typename pack<C>::integer>(threshold)};
}

/// `y` may be `x`.
template <class T>
void dropout_run(context<cpu>& ctx, const random_key& key, std::uint32_t threshold, double scale, T* y, const T* x,
                 index_t size) {
  using C = compute_type<T>;
  constexpr index_t step = philox_lanes::halves;  // elements per draw
  const pack<C> kept(scale);
  parallel_elements(ctx, size, 1 << 13, [=](index_t begin, index_t end) {  // ranges begin at a draw
    for (index_t i = begin; i < end; i += step) {
      std::uint16_t drawn[step];
      philox_lanes::draw(key, i / 8).store(drawn);
      for_packs<C>(std::min(step, end - i), [&](index_t k, auto n) {
        const pack<C> v = load<C>(x + i + k, n);
        store(select(at_least<C>(drawn + k, threshold), v * kept, pack<C>(0)), y + i + k, n);
      });
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::dropout, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, const random_key& key, std::uint32_t threshold, double scale,
                      matrix_extents of, T* y, const T* x) {
    cpu_kit::dropout_run(ctx, key, threshold, scale, y, x, of.rows * of.columns);
  }
};

}  // namespace gradus
