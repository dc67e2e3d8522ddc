#pragma once
// The CUDA kernels of reductions.

#include <algorithm>
#include <cstdint>

#include "../broadcast/cuda.hpp"
#include "layout.hpp"
#include "reduce.hpp"

namespace gradus {

namespace cuda_kit {

/// to (+)= factor * from, broadcast.
template <class T, class U, class Walk, bool Moves>
__global__ void __launch_bounds__(block_threads)
    spread_kernel(T* to, bool accumulate, Walk walk, walked_operand<U, Walk, Moves> from,
                  compute_type<promote<T, U>> factor) {
  using C = compute_type<promote<T, U>>;
  walk_run(walk, [&](auto n, auto at) {
    const auto v = from.template run<n>(walk, at);
    put<n, true>(to + at, accumulate, n, [&](int i) { return factor * static_cast<C>(v.at[i]); });
  });
}

/// A candidate for the extreme element: NaN precedes all numbers, and the first of equals counts.
template <bool Largest, class C>
struct candidate {
  C value;
  std::int32_t at;  // its place; negative: none
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

/// Distributes the candidates of each result over some thousand warps: `each` per thread if results are adjacent.
template <class Count>
struct extremum_shares {
  Count terms, each, threads;
  divisor<Count> inner, outputs;
};

/// How many threads take part of the candidates of one result, and how many parts there are.
struct extremum_parts {
  index_t group, terms, parts, threads;

  template <class Reduction>
  constexpr explicit extremum_parts(const Reduction& of)
      : group(of.inner_reduced ? 32 : 1), terms(of.inner_reduced ? of.count : of.steps) {
    const index_t most = (terms + 32 * group - 1) / (32 * group);
    const index_t wanted = ((index_t{1} << 17) + of.outputs * group - 1) / (of.outputs * group);
    parts = std::max<index_t>(1, std::min<index_t>({most, wanted, 1024}));
    threads = of.outputs * parts * group;
  }
};
/// The type that counts elements and threads: 32 threads per result are the most, or some 2^17.
template <class Big, class Small>
using extremum_count =
    count_for<Big::bounded ? 32 * Big::size + (index_t{1} << 17)
                           : std::max(Big::size, extremum_parts(largest_reduction<Big, Small>).threads)>;

/// The best of a warp's candidates, in all its threads.
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

/// The address of element number `place` of result `o`.
template <bool InnerReduced, class Rows, class Count>
__device__ inline auto place_in_reduction(const Rows& rows, const divisor<Count>& inner, Count o, Count place) {
  const auto along = inner.divide(InnerReduced ? place : o);
  return rows.row(o, place) + along;
}
/// Stores the results, or, if there are several parts, the best of each in partial [parts, outputs].
template <bool InnerReduced, class Rows, class Count, class Candidate, class T>
__global__ void __launch_bounds__(block_threads)
    extremum_kernel(T* y, std::int32_t* at, Candidate* partial, const T* x, Rows rows, extremum_shares<Count> shares) {
  using C = compute_type<T>;
  constexpr Count group = InnerReduced ? 32 : 1;  // threads per part
  const Count thread = static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x;
  if (thread >= shares.threads) return;  // for all threads of a warp if they cooperate
  Count part = thread / group;
  const Count o = shares.outputs.divide(part), last = (part + 1) * shares.each;
  const Count end = last < shares.terms ? last : shares.terms;
  Candidate best{C(0), -1};
  for (Count k = part * shares.each + thread % group; k < end; k += group) {
    const T v = x[place_in_reduction<InnerReduced>(rows, shares.inner, o, k)];
    best = Candidate::better(best, {static_cast<C>(v), static_cast<std::int32_t>(k)});
  }
  if constexpr (InnerReduced) {
    best = best_of_warp(best);
    if (thread % 32 != 0) return;
  }
  if (partial == nullptr) put_extremum(y, at, o, best);
  else partial[thread / group] = best;
}
/// The second stage: one warp per result.
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

/// Writes gradients to the places of extremes. Each place belongs to one result, so no element is written twice.
template <bool InnerReduced, class Rows, class Count, class T, class U>
__global__ void __launch_bounds__(block_threads)
    extremum_gradient_kernel(T* dx, const U* dy, const std::int32_t* at, Rows rows, divisor<Count> inner,
                             Count outputs) {
  using C = compute_type<promote<T, U>>;
  const Count o = static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x;
  if (o >= outputs) return;
  const auto where = place_in_reduction<InnerReduced>(rows, inner, o, static_cast<Count>(at[o]));
  put<1, true>(dx + where, true, 1, [&](int) { return static_cast<C>(dy[o]); });
}

template <class TDX, class TY, class T, class C, class Walk, bool Moves>
__global__ void __launch_bounds__(block_threads)
    variance_gradient_kernel(TDX* dx, bool accumulate, Walk walk, walked_operand<TY, Walk, Moves> dy, const T* x,
                             walked_operand<C, Walk, Moves> mean, C factor) {
  walk_run(walk, [&](auto n, auto at) {
    const auto g = dy.template run<n>(walk, at);
    const auto v = load<n, true>(x + at, n);
    const auto m = mean.template run<n>(walk, at);
    put<n, true>(dx + at, accumulate, n,
                 [&](int i) { return factor * static_cast<C>(g.at[i]) * (static_cast<C>(v.at[i]) - m.at[i]); });
  });
}

}  // namespace cuda_kit

template <class Axes, bool Keep, bool Mean>
struct kernel<op::sum<Axes, Keep, Mean>, cuda> {
  template <class TY, class Small, class T, class Big>
  static void forward(context<cuda>& ctx, view<TY, Small, cuda> y, view<const T, Big, cuda> x) {
    cuda_kit::sum_into(ctx, y, x, false, factor(x, y));
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cuda>& ctx, view<T, Big, cuda> dx, bool accumulate, view<const TY, Small, cuda> dy) {
    const auto spread = [&](unsigned blocks, const auto& walk, const auto& from) {
      launch(ctx,
             &cuda_kit::spread_kernel<T, TY, std::remove_cvref_t<decltype(walk)>,
                                      std::remove_cvref_t<decltype(from)>::moves>,
             blocks, cuda_kit::block_threads, dx.data(), accumulate, walk, from,
             static_cast<compute_type<promote<T, TY>>>(factor(dx, dy)));
    };
    cuda_kit::with_walk<cuda_kit::vector_width<T, TY>>(spread, dx.extents(), dy);
  }

 private:
  template <class Big, class Small>
  static constexpr double factor(const Big& big, const Small& result) {
    return Mean ? 1.0 / static_cast<double>(big.extents().size / result.extents().size) : 1.0;
  }
};

template <class Axes, bool Keep, bool Largest>
struct kernel<op::extremum<Axes, Keep, Largest>, cuda> {
  template <class T, class Small, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> y, view<std::int32_t, Small, cuda> at,
                      view<const T, Big, cuda> x) {
    static_assert(cuda_kit::largest_reduction<Big, Small>.count < (index_t{1} << 31),
                  "max, min, argmax: more elements than an i32 can index");
    using candidate = cuda_kit::candidate<Largest, compute_type<T>>;
    using count = cuda_kit::extremum_count<Big, Small>;
    const auto reduction = cuda_kit::reduction_of(x, y);
    const cuda_kit::extremum_parts of(reduction);
    const auto rows = cuda_kit::rows_of_reduction<count, Big, Small>(reduction);
    candidate* const partial = of.parts == 1 ? nullptr : scratch<candidate>(ctx, reduction.outputs * of.parts);
    const auto reduce = [&](auto inner_reduced, auto) {
      launch(ctx,
             &cuda_kit::extremum_kernel<decltype(inner_reduced)::value, std::remove_const_t<decltype(rows)>, count,
                                        candidate, T>,
             cuda_kit::blocks_for(of.threads), cuda_kit::block_threads, y.data(), at.data(), partial, x.data(), rows,
             {static_cast<count>(of.terms), static_cast<count>((of.terms + of.parts - 1) / of.parts),
              static_cast<count>(of.threads), by<count>(reduction.inner), by<count>(reduction.outputs)});
    };
    cuda_kit::with_inner_axis<1, Big, Small>(reduction, reduce);
    if (of.parts > 1)
      launch(ctx, &cuda_kit::best_of_parts_kernel<candidate, T>, cuda_kit::blocks_for(reduction.outputs * 32),
             cuda_kit::block_threads, y.data(), at.data(), partial, reduction.outputs, of.parts);
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cuda>& ctx, view<T, Big, cuda> dx, view<const TY, Small, cuda> dy,
                       view<const std::int32_t, Small, cuda> at) {
    using count = cuda_kit::extremum_count<Big, Small>;
    const auto reduction = cuda_kit::reduction_of(dx, dy);
    const auto rows = cuda_kit::rows_of_reduction<count, Big, Small>(reduction);
    const auto put = [&](auto inner_reduced, auto) {
      launch(ctx,
             &cuda_kit::extremum_gradient_kernel<decltype(inner_reduced)::value, std::remove_const_t<decltype(rows)>,
                                                 count, T, TY>,
             cuda_kit::blocks_for(reduction.outputs), cuda_kit::block_threads, dx.data(), dy.data(), at.data(), rows,
             by<count>(reduction.inner), static_cast<count>(reduction.outputs));
    };
    cuda_kit::with_inner_axis<1, Big, Small>(reduction, put);
  }

 private:
  template <class Count>
  static constexpr auto by(index_t n) {
    return cuda_kit::divisor<Count>(static_cast<Count>(n));
  }
};

template <class Axes, bool Keep>
struct kernel<op::variance<Axes, Keep>, cuda> {
  template <class TY, class Small, class C, class T, class Big>
  static void forward(context<cuda>& ctx, view<TY, Small, cuda> y, view<C, Small, cuda> mean,
                      view<const T, Big, cuda> x) {
    const double share = 1.0 / static_cast<double>(x.extents().size / y.extents().size);
    cuda_kit::sum_into(ctx, mean, x, false, share);
    cuda_kit::sum_into(ctx, y, x, false, share, cuda_kit::squared_distances<C>{mean.data()});
  }
  template <class TDX, class Big, class TY, class Small, class T, class C>
  static void backward(context<cuda>& ctx, view<TDX, Big, cuda> dx, bool accumulate, view<const TY, Small, cuda> dy,
                       view<const T, Big, cuda> x, view<const C, Small, cuda> mean) {
    const double count = static_cast<double>(x.extents().size / dy.extents().size);
    const auto spread = [&](unsigned blocks, const auto& walk, const auto& from, const auto& middle) {
      launch(ctx,
             &cuda_kit::variance_gradient_kernel<TDX, TY, T, C, std::remove_cvref_t<decltype(walk)>,
                                                 std::remove_cvref_t<decltype(from)>::moves>,
             blocks, cuda_kit::block_threads, dx.data(), accumulate, walk, from, x.data(), middle,
             static_cast<C>(2.0 / count));
    };
    cuda_kit::with_walk<cuda_kit::vector_width<TDX, TY, T, C>>(spread, dx.extents(), dy, mean);
  }
};

}  // namespace gradus
