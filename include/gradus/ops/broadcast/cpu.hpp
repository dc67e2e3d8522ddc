#pragma once
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd.hpp"
#include "../../cpu/vector_loop.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../reduce/cpu.hpp"
#include "broadcast.hpp"

namespace gradus {

template <>
struct kernel<op::accumulate, cpu> {
  template <class T, class S>
  static void forward(context<cpu>& ctx, view<T, S> to, view<const T, S> from) {
    using C = compute_type<T>;
    cpu_kit::parallel_elements(ctx, S::size, 1 << 15, [&](index begin, index end) {
      for (index i = begin; i < end; ++i) to[i] = static_cast<T>(static_cast<C>(to[i]) + static_cast<C>(from[i]));
    });
  }
};

template <>
struct kernel<op::convert, cpu> {
  template <class To, class S, class From>
  static void forward(context<cpu>& ctx, view<To, S> to, view<const From, S> from, bool accumulate) {
    if constexpr (is_floating<To> && is_floating<From>) {
      using C = compute_type<promote<To, From>>;
      cpu_kit::parallel_elements(ctx, S::size, 1 << 15, [&](index begin, index end) {
        cpu_kit::for_packs<C>(end - begin, [&](index i, auto n) {
          cpu_kit::put(cpu_kit::load<C>(from.data() + begin + i, n), to.data() + begin + i, accumulate, n);
        });
      });
    } else {
      cpu_kit::parallel_elements(ctx, S::size, 1 << 15, [&](index begin, index end) {
        for (index i = begin; i < end; ++i) to[i] = convert_element<To>(from[i]);
      });
    }
  }
};

/// The sum that broadcasting needs is a reduction like any other.
template <>
struct kernel<op::sum_to, cpu> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cpu>& ctx, view<T, Small> to, view<const U, Big> from, bool accumulate) {
    cpu_kit::sum_into<reduction_plan<Big, Small>>(ctx, to.data(), from.data(), accumulate, 1.0);
  }
};

}  // namespace gradus
