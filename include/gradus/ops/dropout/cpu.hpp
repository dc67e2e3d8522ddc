#pragma once
#include <algorithm>
#include <cstdint>

#include "../../core/config.hpp"
#include "../../cpu/convert.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/philox_lanes.hpp"
#include "../../cpu/rows.hpp"
#include "dropout.hpp"

namespace gradus {

template <>
struct kernel<op::dropout, cpu> {
  /// `y` may be `x`.
  template <class T, class S>
  static void forward(context<cpu>& ctx, const random_key& key, std::uint32_t threshold, double scale, view<T, S> y,
                      view<const T, S> x) {
    using C = compute_type<T>;
    constexpr index_t step = cpu_kit::philox_lanes::halves;  // elements a draw serves
    const pack<C> kept(scale);
    cpu_kit::parallel_elements(ctx, S::size, 1 << 13, [=](index_t begin, index_t end) {  // ranges start at whole draws
      for (index_t i = begin; i < end; i += step) {
        std::uint16_t drawn[step];
        cpu_kit::philox_lanes::draw(key, i / 8).store(drawn);
        cpu_kit::for_packs<C>(std::min(step, end - i), [&](index_t k, auto n) {
          const pack<C> v = cpu_kit::load<C>(x.data() + i + k, n);
          cpu_kit::store(select(at_least<C>(drawn + k, threshold), v * kept, pack<C>(0)), y.data() + i + k, n);
        });
      }
    });
  }

 private:
  template <class C>
  static GRADUS_INLINE pack_mask<C> at_least(const std::uint16_t* halves, std::uint32_t threshold) {
    using integers = typename pack<C>::mask_native;
    typename cpu_kit::vector_of<std::uint16_t, lanes<C>>::type h;
    std::memcpy(&h, halves, sizeof h);
    return {__builtin_convertvector(h, integers) >= static_cast<typename pack<C>::integer>(threshold)};
  }
};

}  // namespace gradus
