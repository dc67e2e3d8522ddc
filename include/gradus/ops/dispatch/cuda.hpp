#pragma once
// The CUDA kernels of dispatch_rows and combine_rows: a thread has a run of a token's row, and visits its places.

#include <cstdint>
#include <type_traits>

#include "../../gpu/rows.hpp"
#include "../../gpu/runs.hpp"
#include "../../precision/promotion.hpp"
#include "../gather/cuda.hpp"
#include "dispatch.hpp"

namespace gradus {

namespace cuda_kit {

/// Where the places of a token lie. A place out of range is left out, because a GPU cannot throw.
template <class Id>
struct token_places {
  const Id* places;
  dispatch_sizes sizes;

  __device__ index_t entry(index_t token, index_t k) const { return token * sizes.copies + k; }
  __device__ bool has(index_t token, index_t k) const {
    const auto place = static_cast<long long>(places[entry(token, k)]);
    return place >= 0 && place < static_cast<long long>(sizes.tokens * sizes.copies);
  }
  /// The first element of the row at the token's place number k.
  __device__ index_t row(index_t token, index_t k) const {
    return static_cast<index_t>(places[entry(token, k)]) * sizes.columns;
  }
  /// Calls f(k, row(token, k)) for the token's places.
  template <class F>
  __device__ void each(index_t token, const F& f) const {
    for (index_t k = 0; k < sizes.copies; ++k)
      if (has(token, k)) f(k, row(token, k));
  }
};

/// Calls f(token, column) for this thread's run of Width elements.
template <int Width, class F>
__device__ inline void token_run(index_t tokens, divisor<std::uint64_t> columns, const F& f) {
  std::uint64_t token = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) * Width;
  if (token >= tokens * columns.value) return;
  const std::uint64_t column = columns.divide(token);
  f(token, column);
}

template <int Width, class T, class Id>
__global__ void __launch_bounds__(block_threads)
    copy_to_places_kernel(T* y, const T* x, token_places<Id> at, divisor<std::uint64_t> columns) {
  token_run<Width>(at.sizes.tokens, columns, [&](index_t token, index_t column) {
    const auto v = load<Width, true>(x + token * at.sizes.columns + column, Width);
    at.each(token, [&](index_t, index_t row) { store<Width, true>(y + row + column, v, Width); });
  });
}

/// to[n] (+)= sum over k of weights[n, k] from[places[n, k]]; without weights, of the rows alone.
template <int Width, class TO, class T, class W, class Id>
__global__ void __launch_bounds__(block_threads)
    sum_places_kernel(TO* to, bool accumulate, const T* from, const W* weights, token_places<Id> at,
                      divisor<std::uint64_t> columns) {
  using C = compute_type<promote<T, W>>;
  token_run<Width>(at.sizes.tokens, columns, [&](index_t token, index_t column) {
    vector_of<C, Width> sum{};
    at.each(token, [&](index_t k, index_t row) {
      const auto v = load<Width, true>(from + row + column, Width);
      const C weight = weights == nullptr ? C(1) : static_cast<C>(weights[at.entry(token, k)]);
#pragma unroll
      for (int i = 0; i < Width; ++i) sum.at[i] += weight * static_cast<C>(v.at[i]);
    });
    put<Width, true>(to + token * at.sizes.columns + column, accumulate, Width, [&](int i) { return sum.at[i]; });
  });
}

/// dx[places[n, k]] (+)= weights[n, k] dy[n]
template <int Width, class TX, class TY, class W, class Id>
__global__ void __launch_bounds__(block_threads)
    spread_to_places_kernel(TX* dx, bool accumulate, const TY* dy, const W* weights, token_places<Id> at,
                            divisor<std::uint64_t> columns) {
  using C = compute_type<promote<TY, W>>;
  token_run<Width>(at.sizes.tokens, columns, [&](index_t token, index_t column) {
    const auto v = load<Width, true>(dy + token * at.sizes.columns + column, Width);
    at.each(token, [&](index_t k, index_t row) {
      const C weight = static_cast<C>(weights[at.entry(token, k)]);
      put<Width, true>(dx + row + column, accumulate, Width, [&](int i) { return weight * static_cast<C>(v.at[i]); });
    });
  });
}

/// dweights[n, k] (+)= dy[n] . x[places[n, k]], by a warp per token; 0 for a place that is left out.
template <class TW, class TY, class T, class Id>
__global__ void __launch_bounds__(block_threads)
    place_products_kernel(TW* dweights, bool accumulate, const TY* dy, const T* x, token_places<Id> at) {
  using C = compute_type<promote<promote<T, TW>, TY>>;
  const index_t token = static_cast<index_t>(blockIdx.x) * (block_threads / 32) + threadIdx.x / 32;
  if (token >= at.sizes.tokens) return;
  const TY* const from = dy + token * at.sizes.columns;
  for (index_t k = 0; k < at.sizes.copies; ++k) {
    C sum = 0;
    if (at.has(token, k))
      for (index_t c = threadIdx.x % 32; c < at.sizes.columns; c += 32)
        sum += static_cast<C>(from[c]) * static_cast<C>(x[at.row(token, k) + c]);
    sum = row_sum<32>(sum);
    if (threadIdx.x % 32 == 0) put<1, true>(dweights + at.entry(token, k), accumulate, 1, [&](int) { return sum; });
  }
}

/// Calls run(width, blocks, columns) with runs of 16 bytes of the largest type if rows consist of whole ones.
template <class... Ts, class F>
void for_token_runs(const dispatch_sizes& of, const F& run) {
  constexpr int wide = vector_width<Ts...>;
  const divisor<std::uint64_t> columns(of.columns);
  const index_t size = of.tokens * of.columns;
  if (of.columns % wide == 0) run(std::integral_constant<int, wide>{}, flat_blocks(size, wide), columns);
  else run(std::integral_constant<int, 1>{}, flat_blocks(size, 1), columns);
}

template <class TO, class T, class W, class Id>
void sum_places(context<cuda>& ctx, TO* to, bool accumulate, const T* from, const W* weights, const Id* places,
                dispatch_sizes sizes) {
  for_token_runs<TO, T>(sizes, [&](auto width, unsigned blocks, auto columns) {
    launch(ctx, &sum_places_kernel<decltype(width)::value, TO, T, W, Id>, blocks, block_threads, to, accumulate, from,
           weights, token_places<Id>{places, sizes}, columns);
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::dispatch_rows, cuda> {
  template <class T, class Id>
  static void forward(context<cuda>& ctx, T* y, const T* x, const Id* places, dispatch_sizes sizes) {
    using namespace cuda_kit;
    for_token_runs<T>(sizes, [&](auto width, unsigned blocks, auto columns) {
      launch(ctx, &copy_to_places_kernel<decltype(width)::value, T, Id>, blocks, block_threads, y, x,
             token_places<Id>{places, sizes}, columns);
    });
  }
  template <class TX, class T, class Id>
  static void backward(context<cuda>& ctx, TX* dx, bool accumulate, const T* dy, const Id* places,
                       dispatch_sizes sizes) {
    cuda_kit::sum_places(ctx, dx, accumulate, dy, static_cast<const T*>(nullptr), places, sizes);
  }
};

template <>
struct kernel<op::combine_rows, cuda> {
  template <class T, class W, class Id>
  static void forward(context<cuda>& ctx, T* y, const T* x, const W* weights, const Id* places, dispatch_sizes sizes) {
    cuda_kit::sum_places(ctx, y, false, x, weights, places, sizes);
  }
  template <class TX, class TW, class TY, class T, class W, class Id>
  static void backward(context<cuda>& ctx, TX* dx, bool add_to_dx, TW* dweights, bool add_to_dweights, const TY* dy,
                       const T* x, const W* weights, const Id* places, dispatch_sizes sizes) {
    using namespace cuda_kit;
    const token_places<Id> at{places, sizes};
    if (dx != nullptr)
      for_token_runs<TX, TY>(sizes, [&](auto width, unsigned blocks, auto columns) {
        launch(ctx, &spread_to_places_kernel<decltype(width)::value, TX, TY, W, Id>, blocks, block_threads, dx,
               add_to_dx, dy, weights, at, columns);
      });
    if (dweights != nullptr)
      launch(ctx, &place_products_kernel<TW, TY, T, Id>, blocks_for(sizes.tokens * 32), block_threads, dweights,
             add_to_dweights, dy, x, at);
  }
};

}  // namespace gradus
