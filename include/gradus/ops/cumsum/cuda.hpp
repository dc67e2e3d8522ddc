#pragma once
// The CUDA kernels of cumsum: a line per thread where neighbouring lines are adjacent, otherwise a line per warp.

#include <cstdint>
#include <type_traits>

#include "../../core/math.hpp"
#include "../../gpu/runs.hpp"
#include "cumsum.hpp"

namespace gradus {

namespace cuda_kit {

template <class T>
using running_sum = std::conditional_t<is_floating<T>, double, std::int64_t>;

template <class A>
__device__ inline A running_add(A a, A b) {
  if constexpr (std::is_integral_v<A>) return math::wrapping_add(a, b);
  else return a + b;
}
template <class To, class A>
__device__ inline void put_sum(To* to, bool accumulate, A sum) {
  put<1, true>(to, accumulate, 1, [&](int) { return static_cast<compute_type<To>>(sum); });
}

template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    cumsum_lines_kernel(To* to, bool accumulate, const From* from, index_t lines, index_t count, index_t inner,
                        bool reverse) {
  using A = running_sum<From>;
  const index_t line = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (line >= lines) return;
  const index_t start = line / inner * count * inner + line % inner;
  A sum = 0;
  for (index_t step = 0; step < count; ++step) {
    const index_t at = start + (reverse ? count - 1 - step : step) * inner;
    sum = running_add(sum, static_cast<A>(from[at]));
    put_sum(to + at, accumulate, sum);
  }
}

/// 32 elements of a row at a time: a scan by shuffles, and the sum of all before.
template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    cumsum_rows_kernel(To* to, bool accumulate, const From* from, index_t rows, index_t count, bool reverse) {
  using A = running_sum<From>;
  const index_t row = static_cast<index_t>(blockIdx.x) * (block_threads / 32) + threadIdx.x / 32;
  const auto lane = static_cast<index_t>(threadIdx.x % 32);
  if (row >= rows) return;
  A before = 0;
  for (index_t begin = 0; begin < count; begin += 32) {
    const index_t step = begin + lane, at = row * count + (reverse ? count - 1 - step : step);
    A sum = step < count ? static_cast<A>(from[at]) : A(0);
#pragma unroll
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const A other = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
      if (lane >= distance) sum = running_add(sum, other);
    }
    if (step < count) put_sum(to + at, accumulate, running_add(before, sum));
    before = running_add(before, __shfl_sync(0xFFFFFFFFu, sum, 31));
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::cumsum<0>, cuda> {
  template <class To, class From>
  static void forward(context<cuda>& ctx, axis_lines by, To* to, bool accumulate, const From* from) {
    using namespace cuda_kit;
    const index_t lines = by.outer * by.inner;
    if (by.inner == 1)
      launch(ctx, &cumsum_rows_kernel<To, From>, blocks_for(lines * 32), block_threads, to, accumulate, from, lines,
             by.count, by.reverse);
    else
      launch(ctx, &cumsum_lines_kernel<To, From>, blocks_for(lines), block_threads, to, accumulate, from, lines,
             by.count, by.inner, by.reverse);
  }
};

}  // namespace gradus
