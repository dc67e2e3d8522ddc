#pragma once
// The CPU kernel of comparisons and logical functions.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "../broadcast/cpu_runs.hpp"
#include "comparison.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

template <class F, index_t Most, class... Ts>
void test_runs(context<cpu>& ctx, const F& functor, const broadcast_axes<sizeof...(Ts), Most>& axes, bool* out,
               const Ts*... in) {
  const auto run = [&](index_t first, index_t n, const Ts*... from) {
    using T = promote<Ts...>;
    const F f = functor;
    bool* const to = out + first;
    if constexpr (is_floating<T>) {
      using C = compute_type<T>;
      for_packs<C>(n, [&](index_t i, auto which) {
        store(select(f(load<C>(from + i, which)...), pack<C>(1), pack<C>(0)), to + i, which);
      });
    } else {
      using I = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
      for (index_t i = 0; i < n; ++i) to[i] = f(static_cast<I>(from[i])...);
    }
  };
  for_runs(ctx, axes, std::index_sequence_for<Ts...>{}, run, in...);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <class F>
struct kernel<op::test<F>, cpu> {
  template <class Out, class... Ts, class... Ins>
  static void forward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<bool, Out> out,
                      view<const Ts, Ins>... in) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::test_runs(ctx, f, cpu_kit::axes_of(out.extents(), in.extents()...), out.data(), in.data()...);
  }
};

}  // namespace gradus
