#pragma once
// The CPU kernels that convert and accumulate elements, and sum broadcast gradients.

#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../reduce/cpu.hpp"
#include "broadcast.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// to = from, or to += from, element by element, in the wider type. Independent of shapes, so compiled once.
template <class To, class From>
void add_run(context<cpu>& ctx, To* to, const From* from, index_t n, bool accumulate) {
  parallel_elements(ctx, n, 1 << 15, [&](index_t begin, index_t end) {
    if constexpr (is_floating<To> && is_floating<From>) {
      using C = compute_type<promote<To, From>>;
      for_packs<C>(end - begin,
                   [&](index_t i, auto k) { put(load<C>(from + begin + i, k), to + begin + i, accumulate, k); });
    } else {
      for (index_t i = begin; i < end; ++i) to[i] = convert_element<To>(from[i]);
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::convert, cpu> {
  template <class To, class From>
  static void forward(context<cpu>& ctx, To* to, const From* from, index_t n, bool accumulate) {
    cpu_kit::add_run(ctx, to, from, n, accumulate);
  }
};

/// The sum over broadcast axes is an ordinary reduction.
template <>
struct kernel<op::sum_to, cpu> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cpu>& ctx, view<T, Small> to, view<const U, Big> from, bool accumulate) {
    cpu_kit::sum_into(ctx, cpu_kit::reduction_of(from, to), to.data(), from.data(), accumulate, 1.0);
  }
};

}  // namespace gradus
