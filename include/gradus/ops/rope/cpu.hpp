#pragma once
// The CPU kernel of rope.

#include <cmath>
#include <cstdint>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "rope.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// A task rotates all rows of one time. `positions` of times may be null. `y` may be `x`.
template <class T>
void rope_rows(context<cpu>& ctx, const rope_options& options, bool back, const gradus::detail::rope_sizes& of,
               const std::int32_t* positions, T* y, const T* x) {
  using C = compute_type<T>;
  const index_t half = of.depth / 2, padded = (half + lanes<C> - 1) / lanes<C> * lanes<C>;
  parallel_tasks(ctx, of.time, 2 * padded * sizeof(C), [=](index_t t, void* memory) {
    C* const cosines = static_cast<C*>(memory);
    C* const sines = cosines + padded;
    const double position =
        static_cast<double>(options.position) + (positions == nullptr ? static_cast<double>(t) : positions[t]);
    for (index_t i = 0; i < half; ++i) {
      const double angle = position * gradus::detail::rope_frequency(options, i, of.depth);
      cosines[i] = static_cast<C>(options.scaling.amplitude * std::cos(angle));
      sines[i] = static_cast<C>(options.scaling.amplitude * (back ? -std::sin(angle) : std::sin(angle)));
    }
    for (index_t n = 0; n < of.batch * of.heads; ++n) {
      const index_t at = ((n / of.heads * of.time + t) * of.heads + n % of.heads) * of.depth;
      const T* const from = x + at;
      T* const to = y + at;
      if (options.layout == rope_layout::halves) {
        for_packs<C>(half, [&](index_t i, auto which) {
          const pack<C> a = load<C>(from + i, which), b = load<C>(from + half + i, which);
          const pack<C> c = load<C>(cosines + i, which), s = load<C>(sines + i, which);
          store(a * c - b * s, to + i, which);
          store(b * c + a * s, to + half + i, which);
        });
      } else {
        for (index_t i = 0; i < half; ++i) {
          const C a = static_cast<C>(from[2 * i]), b = static_cast<C>(from[2 * i + 1]);
          to[2 * i] = convert_element<T>(a * cosines[i] - b * sines[i]);
          to[2 * i + 1] = convert_element<T>(b * cosines[i] + a * sines[i]);
        }
      }
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::rope<0>, cpu> {
  template <class T>
  static void forward(context<cpu>& ctx, const rope_options& options, bool back, const detail::rope_sizes& sizes,
                      const std::int32_t* positions, T* y, const T* x) {
    cpu_kit::rope_rows(ctx, options, back, sizes, positions, y, x);
  }
};

}  // namespace gradus
