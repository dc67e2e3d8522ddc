#pragma once
// The CPU kernel of cumsum: lines side by side, each summed in order, whatever the number of threads.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../../cpu/parallel.hpp"
#include "cumsum.hpp"

namespace gradus {

template <>
struct kernel<op::cumsum<0>, cpu> {
  /// `width` of the `inner` lines of a block at a time.
  template <class To, class From>
  static void forward(context<cpu>& ctx, const axis_lines lines, To* to, bool accumulate, const From* from) {
    using A = std::conditional_t<is_floating<From>, double, std::int64_t>;
    constexpr index_t width = 64;
    const index_t pieces = (lines.inner + width - 1) / width, length = lines.count * std::min(lines.inner, width);
    cpu_kit::parallel_elements(
        ctx, lines.outer * pieces, std::max<index_t>(1, (1 << 14) / length), [=](index_t first, index_t last) {
          for (index_t piece = first; piece < last; ++piece) {
            const index_t column = piece % pieces * width, n = std::min(width, lines.inner - column);
            const index_t start = piece / pieces * lines.count * lines.inner + column;
            A sum[width] = {};
            for (index_t step = 0; step < lines.count; ++step) {
              const index_t at = start + (lines.reverse ? lines.count - 1 - step : step) * lines.inner;
              for (index_t i = 0; i < n; ++i) {
                const A one = static_cast<A>(static_cast<compute_type<From>>(from[at + i]));
                if constexpr (is_floating<From>) sum[i] += one;
                else sum[i] = math::wrapping_add(sum[i], one);
                using C = compute_type<To>;
                const C before = accumulate ? static_cast<C>(to[at + i]) : C(0);
                to[at + i] = static_cast<To>(static_cast<C>(before + static_cast<C>(sum[i])));
              }
            }
          }
        });
  }
};

}  // namespace gradus
