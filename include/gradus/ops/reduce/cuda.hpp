#pragma once
#include <algorithm>
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

/// How the elements that each result is chosen from are shared out: a thread takes a part of them where results lie
/// side by side in memory, else a warp. There are as many parts as make some thousand warps.
template <class Reduction>
struct extremum_parts {
  static constexpr index_t group = Reduction::inner_reduced ? 32 : 1;  // threads of a part
  static constexpr index_t terms = Reduction::inner_reduced ? Reduction::count : Reduction::steps;
  static constexpr index_t most = (terms + 32 * group - 1) / (32 * group);
  static constexpr index_t wanted =
      ((index_t{1} << 17) + Reduction::outputs * group - 1) / (Reduction::outputs * group);
  static constexpr index_t parts = std::max<index_t>(1, std::min<index_t>({most, wanted, 1024}));
  static constexpr index_t each = (terms + parts - 1) / parts;
  static constexpr index_t threads = Reduction::outputs * parts * group;
};

/// The best of a warp's candidates, in each of its threads.
template <class Candidate>
__device__ inline Candidate best_of_warp(Candidate best) {
  for (int distance = 16; distance > 0; distance /= 2)
    best = Candidate::better(
        best, {__shfl_xor_sync(0xFFFFFFFFu, best.value, distance), __shfl_xor_sync(0xFFFFFFFFu, best.at, distance)});
  return best;
}
template <class T, class Candidate>
__device__ inline void put_extremum(T* y, std::int32_t* at, index_t output, const Candidate& best) {
  if (y != nullptr) y[output] = static_cast<T>(best.value);
  if (at != nullptr) at[output] = best.at;
}

/// Leaves the results, or, where there are several parts, the best of each in partial [parts, outputs].
template <class Reduction, class Candidate, class T>
__global__ void __launch_bounds__(block_threads)
    extremum_kernel(T* y, std::int32_t* at, Candidate* partial, const T* x) {
  using shares = extremum_parts<Reduction>;
  using C = compute_type<T>;
  const index_t thread = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (thread >= shares::threads) return;  // a whole warp where warps work together
  const index_t o = thread / shares::group % Reduction::outputs, part = thread / shares::group / Reduction::outputs;
  const index_t end = (part + 1) * shares::each < shares::terms ? (part + 1) * shares::each : shares::terms;
  Candidate best{C(0), -1};
  for (index_t k = part * shares::each + thread % shares::group; k < end; k += shares::group) {
    const T v = Reduction::inner_reduced ? x[Reduction::row(o, k / Reduction::inner) + k % Reduction::inner]
                                         : x[Reduction::row(o / Reduction::inner, k) + o % Reduction::inner];
    best = Candidate::better(best, {static_cast<C>(v), static_cast<std::int32_t>(k)});
  }
  if constexpr (Reduction::inner_reduced) {
    best = best_of_warp(best);
    if (thread % 32 != 0) return;
  }
  if constexpr (shares::parts == 1) put_extremum(y, at, o, best);
  else partial[part * Reduction::outputs + o] = best;
}
/// The second stage: a warp for each result.
template <class Candidate, class T>
__global__ void __launch_bounds__(block_threads)
    best_of_parts_kernel(T* y, std::int32_t* at, const Candidate* partial, index_t outputs, index_t parts) {
  const index_t o = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) / 32;
  if (o >= outputs) return;
  Candidate best{0, -1};
  for (index_t part = threadIdx.x % 32; part < parts; part += 32)
    best = Candidate::better(best, partial[part * outputs + o]);
  best = best_of_warp(best);
  if (threadIdx.x % 32 == 0) put_extremum(y, at, o, best);
}

/// Each place belongs to one result: nothing is written twice.
template <class Reduction, class T, class U>
__global__ void __launch_bounds__(block_threads) extremum_gradient_kernel(T* dx, const U* dy, const std::int32_t* at) {
  using C = compute_type<promote<T, U>>;
  const index_t o = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (o >= Reduction::outputs) return;
  const auto place = static_cast<index_t>(at[o]);
  const index_t where = Reduction::inner_reduced
                            ? Reduction::row(o, place / Reduction::inner) + place % Reduction::inner
                            : Reduction::row(o / Reduction::inner, place) + o % Reduction::inner;
  put<1, true>(dx + where, true, 1, [&](int) { return static_cast<C>(dy[o]); });
}

template <class Big, class Small, class TDX, class TY, class T, class C>
__global__ void __launch_bounds__(block_threads)
    variance_gradient_kernel(TDX* dx, bool accumulate, const TY* dy, const T* x, const C* mean, C factor) {
  spread_run<Big, Small>(dx, accumulate, [&](auto at, auto o) {
    return factor * static_cast<C>(dy[o]) * (static_cast<C>(x[at]) - mean[o]);
  });
}

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
    static_assert(plan::count < (index_t{1} << 31),
                  "max, min, argmax: more elements to choose from than an i32 can number");
    using shares = cuda_kit::extremum_parts<plan>;
    using candidate = cuda_kit::candidate<Largest, compute_type<T>>;
    candidate* const partial =
        shares::parts == 1 ? nullptr : cuda_kit::scratch<candidate>(ctx, plan::outputs * shares::parts);
    cuda_kit::launch(ctx, &cuda_kit::extremum_kernel<plan, candidate, T>, cuda_kit::blocks_for(shares::threads),
                     cuda_kit::block_threads, y.data(), at.data(), partial, x.data());
    if constexpr (shares::parts > 1)
      cuda_kit::launch(ctx, &cuda_kit::best_of_parts_kernel<candidate, T>, cuda_kit::blocks_for(plan::outputs * 32),
                       cuda_kit::block_threads, y.data(), at.data(), partial, plan::outputs, shares::parts);
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
    cuda_kit::sum_into(ctx, y, x, false, 1.0 / static_cast<double>(plan::count),
                       cuda_kit::squared_distances<C>{mean.data()});
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
