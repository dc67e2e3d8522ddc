#pragma once
// Sum and mean on the GPU. Not there yet: max, min, argmax, variance.
#include "../broadcast/cuda.hpp"
#include "../elementwise/cuda.hpp"
#include "reduce.hpp"

namespace gradus {

namespace cuda_kit {
/// to (+)= factor * from, where `from` is repeated along the axes that it has as 1.
template <class T, class Big, class Small>
__global__ void __launch_bounds__(block_threads)
    spread_kernel(T* to, const T* from, bool accumulate, compute_type<T> factor) {
  using C = compute_type<T>;
  using steps = walk<Big, vector_width<T>, Small>;
  using count = typename steps::count;
  const count at = (static_cast<count>(blockIdx.x) * block_threads + threadIdx.x) * steps::width;
  if (at >= Big::size) return;
  const view<const T, Small, cuda> source(from);
  const auto put = [&](auto whole, int n) {
    const auto value = operand_run<steps, whole.value>(source, at, n);
    vector_of<T, steps::width> result;
    if (accumulate) result = load<steps::width, whole.value>(to + at, n);
#pragma unroll
    for (int i = 0; i < steps::width; ++i) {
      const C v = factor * static_cast<C>(value.at[i]);
      result.at[i] = static_cast<T>(accumulate ? static_cast<C>(result.at[i]) + v : v);
    }
    store<steps::width, whole.value>(to + at, result, n);
  };
  if (!steps::has_tail || at + steps::width <= Big::size) put(std::true_type{}, steps::width);
  else put(std::false_type{}, static_cast<int>(Big::size - at));
}
}  // namespace cuda_kit

template <class Axes, bool Keep, bool Mean>
struct kernel<op::sum<Axes, Keep, Mean>, cuda> {
  template <class T, class Small, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> y, view<const T, Big, cuda> x) {
    cuda_kit::sum_into(ctx, y, x, false, factor<T, Big, Small>());
  }
  template <class T, class Big, class Small>
  static void backward(context<cuda>& ctx, view<T, Big, cuda> dx, bool accumulate, view<const T, Small, cuda> dy) {
    using steps = cuda_kit::walk<Big, cuda_kit::vector_width<T>, Small>;
    cuda_kit::launch(ctx, &cuda_kit::spread_kernel<T, Big, Small>, cuda_kit::blocks_for(steps::runs),
                     cuda_kit::block_threads, dx.data(), dy.data(), accumulate, factor<T, Big, Small>());
  }

 private:
  template <class T, class Big, class Small>
  static compute_type<T> factor() {
    using C = compute_type<T>;
    return Mean ? static_cast<C>(1.0 / static_cast<double>(Big::size / Small::size)) : C(1);
  }
};

}  // namespace gradus
