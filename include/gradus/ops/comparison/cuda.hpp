#pragma once
// The CUDA kernel of comparisons and logical functions.

#include <cstdint>
#include <type_traits>

#include "../../gpu/runs.hpp"
#include "../../precision/promotion.hpp"
#include "comparison.hpp"

namespace gradus {

namespace cuda_kit {

template <class F, int N, class... Ts>
__device__ inline void test_run(const F& f, bool* to, const vector_of<Ts, N>&... runs) {
  using T = promote<Ts...>;
  using I = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using C = std::conditional_t<is_floating<T>, compute_type<T>, I>;
  vector_of<bool, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.at[i] = f(static_cast<C>(runs.at[i])...);
  store<N, true>(to, result, N);
}

template <class F, class Walk, class... In>
__global__ void __launch_bounds__(block_threads) test_kernel(F f, Walk walk, bool* out, In... in) {
  walk_run(walk, [&](auto n, auto at) { test_run(f, out + at, in.template run<decltype(n)::value>(walk, at)...); });
}

template <class F>
struct test_launch {
  context<cuda>& ctx;
  const F& f;
  bool* out;
  template <class Walk, class... In>
  void operator()(unsigned blocks, const Walk& walk, const In&... in) const {
    launch(ctx, &test_kernel<F, Walk, In...>, blocks, block_threads, f, walk, out, in...);
  }
};

}  // namespace cuda_kit

template <class F>
struct kernel<op::test<F>, cuda> {
  template <class Out, class... Ts, class... Ins>
  static void forward(context<cuda>& ctx, const F& f, view<bool, Out, cuda> out, view<const Ts, Ins, cuda>... in) {
    cuda_kit::with_walk<cuda_kit::vector_width<Ts...>>(cuda_kit::test_launch<F>{ctx, f, out.data()}, out.extents(),
                                                       in...);
  }
};

}  // namespace gradus
