#pragma once
#include <cstdint>

#include "../broadcast/cuda.hpp"
#include "plan.hpp"
#include "reduce.hpp"

namespace gradus {

namespace cuda_kit {

/// to (+)= value(at, o), where element `at` belongs to the result `o`; see reduction_plan.
template <class Big, class Small, class T, class F>
__device__ inline void spread_run(T* to, bool accumulate, const F& value) {
  constexpr int width = vector_width<T>;
  using count = count_for<Big::size + width * block_threads>;
  flat_runs<Big::size, width>::run([&](auto whole, auto at, int n) {
    put<width, whole.value>(to + at, accumulate, n, [&](int i) {
      const count e = at + static_cast<count>(i < n ? i : 0);
      const count row = e / static_cast<count>(columns_of<Big>), column = e % static_cast<count>(columns_of<Big>);
      const count moved = columns_of<Small> == 1 ? 0 : column;
      return value(e, operand_row_offset<Small, Big>(row) + moved);
    });
  });
}

template <class Big, class Small, class T, class U>
__global__ void __launch_bounds__(block_threads)
    spread_kernel(T* to, const U* from, bool accumulate, compute_type<promote<T, U>> factor) {
  using C = compute_type<promote<T, U>>;
  spread_run<Big, Small>(to, accumulate, [&](auto, auto o) { return factor * static_cast<C>(from[o]); });
}

/// A candidate for the largest or smallest element: NaN beats everything, and of equals the first counts.
template <bool Largest, class C>
struct candidate {
  C value;
  std::int32_t at;  // negative: none
  __device__ static candidate better(const candidate& a, const candidate& b) {
    if (b.at < 0) return a;
    if (a.at < 0) return b;
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    const bool same = a_is_nan ? b_is_nan : a.value == b.value;
    const bool second =
        same ? b.at < a.at : b_is_nan || (!a_is_nan && (Largest ? b.value > a.value : b.value < a.value));
    return second ? b : a;
  }
};

/// A thread for each result where results lie side by side in memory, else a warp.
template <class Reduction, bool Largest, class T>
__global__ void __launch_bounds__(block_threads) extremum_kernel(T* y, std::int32_t* at, const T* x) {
  using C = compute_type<T>;
  using best_of = candidate<Largest, C>;
  const index thread = static_cast<index>(blockIdx.x) * block_threads + threadIdx.x;
  const index o = Reduction::inner_reduced ? thread / 32 : thread;
  if (o >= Reduction::outputs) return;  // a whole warp where warps work together
  best_of best{C(0), -1};
  if constexpr (Reduction::inner_reduced) {
    for (index k = threadIdx.x % 32; k < Reduction::count; k += 32) {
      const T v = x[Reduction::row(o, k / Reduction::inner) + k % Reduction::inner];
      best = best_of::better(best, {static_cast<C>(v), static_cast<std::int32_t>(k)});
    }
    for (int distance = 16; distance > 0; distance /= 2)
      best = best_of::better(
          best, {__shfl_xor_sync(0xFFFFFFFFu, best.value, distance), __shfl_xor_sync(0xFFFFFFFFu, best.at, distance)});
    if (threadIdx.x % 32 != 0) return;
  } else {
    for (index k = 0; k < Reduction::steps; ++k) {
      const T v = x[Reduction::row(o / Reduction::inner, k) + o % Reduction::inner];
      best = best_of::better(best, {static_cast<C>(v), static_cast<std::int32_t>(k)});
    }
  }
  if (y != nullptr) y[o] = static_cast<T>(best.value);
  if (at != nullptr) at[o] = best.at;
}

/// Each place belongs to one result: nothing is written twice.
template <class Reduction, class T, class U>
__global__ void __launch_bounds__(block_threads) extremum_gradient_kernel(T* dx, const U* dy, const std::int32_t* at) {
  using C = compute_type<promote<T, U>>;
  const index o = static_cast<index>(blockIdx.x) * block_threads + threadIdx.x;
  if (o >= Reduction::outputs) return;
  const auto place = static_cast<index>(at[o]);
  const index where = Reduction::inner_reduced ? Reduction::row(o, place / Reduction::inner) + place % Reduction::inner
                                               : Reduction::row(o / Reduction::inner, place) + o % Reduction::inner;
  put<1, true>(dx + where, true, 1, [&](int) { return static_cast<C>(dy[o]); });
}

/// The means are there; y = the mean of the squared distances from them. Threads as in extremum_kernel.
template <class Reduction, class TY, class C, class T>
__global__ void __launch_bounds__(block_threads) variance_kernel(TY* y, const C* mean, const T* x) {
  const index thread = static_cast<index>(blockIdx.x) * block_threads + threadIdx.x;
  const index o = Reduction::inner_reduced ? thread / 32 : thread;
  if (o >= Reduction::outputs) return;
  const C middle = mean[o];
  C sum = 0;
  if constexpr (Reduction::inner_reduced) {
    for (index k = threadIdx.x % 32; k < Reduction::count; k += 32) {
      const C d = static_cast<C>(x[Reduction::row(o, k / Reduction::inner) + k % Reduction::inner]) - middle;
      sum += d * d;
    }
    sum = row_sum<32>(sum);
    if (threadIdx.x % 32 != 0) return;
  } else {
    for (index k = 0; k < Reduction::steps; ++k) {
      const C d = static_cast<C>(x[Reduction::row(o / Reduction::inner, k) + o % Reduction::inner]) - middle;
      sum += d * d;
    }
  }
  y[o] = convert_element<TY>(sum * static_cast<C>(1.0 / static_cast<double>(Reduction::count)));
}

template <class Big, class Small, class TDX, class TY, class T, class C>
__global__ void __launch_bounds__(block_threads)
    variance_gradient_kernel(TDX* dx, bool accumulate, const TY* dy, const T* x, const C* mean, C factor) {
  spread_run<Big, Small>(dx, accumulate, [&](auto at, auto o) {
    return factor * static_cast<C>(dy[o]) * (static_cast<C>(x[at]) - mean[o]);
  });
}

/// Blocks of the kernels that take a thread or a warp for each result.
template <class Reduction>
inline constexpr unsigned result_blocks =
    blocks_for(Reduction::inner_reduced ? Reduction::outputs * 32 : Reduction::outputs);

}  // namespace cuda_kit

template <class Axes, bool Keep, bool Mean>
struct kernel<op::sum<Axes, Keep, Mean>, cuda> {
  template <class TY, class Small, class T, class Big>
  static void forward(context<cuda>& ctx, view<TY, Small, cuda> y, view<const T, Big, cuda> x) {
    cuda_kit::sum_into(ctx, y, x, false, factor<Big, Small>);
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cuda>& ctx, view<T, Big, cuda> dx, bool accumulate, view<const TY, Small, cuda> dy) {
    cuda_kit::launch(ctx, &cuda_kit::spread_kernel<Big, Small, T, TY>,
                     cuda_kit::flat_runs<Big::size, cuda_kit::vector_width<T>>::blocks, cuda_kit::block_threads,
                     dx.data(), dy.data(), accumulate, static_cast<compute_type<promote<T, TY>>>(factor<Big, Small>));
  }

 private:
  template <class Big, class Small>
  static constexpr double factor = Mean ? 1.0 / static_cast<double>(Big::size / Small::size) : 1.0;
};

template <class Axes, bool Keep, bool Largest>
struct kernel<op::extremum<Axes, Keep, Largest>, cuda> {
  template <class T, class Small, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> y, view<std::int32_t, Small, cuda> at,
                      view<const T, Big, cuda> x) {
    using plan = reduction_plan<Big, Small>;
    static_assert(plan::count < (index{1} << 31),
                  "max, min, argmax: more elements to choose from than an i32 can number");
    cuda_kit::launch(ctx, &cuda_kit::extremum_kernel<plan, Largest, T>, cuda_kit::result_blocks<plan>,
                     cuda_kit::block_threads, y.data(), at.data(), x.data());
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cuda>& ctx, view<T, Big, cuda> dx, view<const TY, Small, cuda> dy,
                       view<const std::int32_t, Small, cuda> at) {
    using plan = reduction_plan<Big, Small>;
    cuda_kit::launch(ctx, &cuda_kit::extremum_gradient_kernel<plan, T, TY>, cuda_kit::blocks_for(plan::outputs),
                     cuda_kit::block_threads, dx.data(), dy.data(), at.data());
  }
};

template <class Axes, bool Keep>
struct kernel<op::variance<Axes, Keep>, cuda> {
  template <class TY, class Small, class C, class T, class Big>
  static void forward(context<cuda>& ctx, view<TY, Small, cuda> y, view<C, Small, cuda> mean,
                      view<const T, Big, cuda> x) {
    using plan = reduction_plan<Big, Small>;
    cuda_kit::sum_into(ctx, mean, x, false, 1.0 / static_cast<double>(plan::count));
    cuda_kit::launch(ctx, &cuda_kit::variance_kernel<plan, TY, C, T>, cuda_kit::result_blocks<plan>,
                     cuda_kit::block_threads, y.data(), mean.data(), x.data());
  }
  template <class TDX, class Big, class TY, class Small, class T, class C>
  static void backward(context<cuda>& ctx, view<TDX, Big, cuda> dx, bool accumulate, view<const TY, Small, cuda> dy,
                       view<const T, Big, cuda> x, view<const C, Small, cuda> mean) {
    using plan = reduction_plan<Big, Small>;
    cuda_kit::launch(ctx, &cuda_kit::variance_gradient_kernel<Big, Small, TDX, TY, T, C>,
                     cuda_kit::flat_runs<Big::size, cuda_kit::vector_width<TDX>>::blocks, cuda_kit::block_threads,
                     dx.data(), accumulate, dy.data(), x.data(), mean.data(),
                     static_cast<C>(2.0 / static_cast<double>(plan::count)));
  }
};

}  // namespace gradus
