#pragma once
// Attention of a few new times to many that are kept: the cache is read once, at the rate of memory.

#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/access.hpp"
#include "../../cuda/launch.hpp"
#include "cached.hpp"

namespace gradus {

namespace cuda_kit {

/// Copies the keys and values of the first `count` times of qkv [B, Time, 3*H*D] to the times from `position` on of the
/// caches [B, H, Context, D]. An element a thread.
template <class T, index_t Heads, index_t Time, index_t Context, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    keep_keys_kernel(T* keys, T* values, const T* qkv, index_t batch, index_t position, index_t count) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= batch * count * Heads * Depth) return;
  const index_t d = i % Depth, h = i / Depth % Heads, t = i / (Depth * Heads) % count, b = i / (Depth * Heads * count);
  const T* const from = qkv + ((b * Time + t) * 3 * Heads + h) * Depth + d;
  const index_t to = ((b * Heads + h) * Context + position + t) * Depth + d;
  keys[to] = from[Heads * Depth];
  values[to] = from[2 * Heads * Depth];
}

inline constexpr int cached_attention_warps = 8;

/// A block a query: time t of head h of sequence b, with block index (b * Time + t) * Heads + h. Each warp goes through
/// every eighth key, its lanes share the numbers of a head; the warps' sums are put together in order. Rows from
/// `count` on become zero.
template <class C, class T, index_t Heads, index_t Time, index_t Context, index_t Depth>
__global__ void __launch_bounds__(32 * cached_attention_warps)
    cached_attention_kernel(T* y, const T* qkv, const T* keys, const T* values, index_t position, index_t count,
                            C scale) {
  constexpr int warps = cached_attention_warps, each = static_cast<int>((Depth + 31) / 32);
  static_assert(warps * (2 + Depth) * sizeof(C) <= (std::size_t{48} << 10),
                "cached_attention: a head this wide does not fit into shared memory");
  __shared__ C best_of[warps], sum_of[warps], row_of[warps][Depth];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const index_t h = blockIdx.x % Heads, t = blockIdx.x / Heads % Time, b = blockIdx.x / (Heads * Time);
  T* const to = y + ((b * Time + t) * Heads + h) * Depth;
  if (t >= count) {
    for (index_t d = threadIdx.x; d < Depth; d += 32 * warps) to[d] = convert_element<T>(0.0f);
    return;
  }
  const T* const query = qkv + ((b * Time + t) * 3 * Heads + h) * Depth;
  const index_t head = (b * Heads + h) * Context * Depth, seen = position + t + 1;
  C q[each], row[each];
#pragma unroll
  for (int e = 0; e < each; ++e) {
    const int d = lane + 32 * e;
    q[e] = d < static_cast<int>(Depth) ? static_cast<C>(query[d]) * scale : C(0);
    row[e] = 0;
  }
  C best = -INFINITY, sum = 0;
  for (index_t j = static_cast<index_t>(warp); j < seen; j += warps) {
    const T* const key = keys + head + j * Depth;
    const T* const value = values + head + j * Depth;
    C score = 0;
#pragma unroll
    for (int e = 0; e < each; ++e)
      if (const int d = lane + 32 * e; d < static_cast<int>(Depth)) score += q[e] * static_cast<C>(key[d]);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, distance);
    const C largest = score > best ? score : best;
    const C shrink = math::exp(best - largest), weight = math::exp(score - largest);  // of the first key: 0, 1
    best = largest;
    sum = sum * shrink + weight;
#pragma unroll
    for (int e = 0; e < each; ++e)
      if (const int d = lane + 32 * e; d < static_cast<int>(Depth))
        row[e] = row[e] * shrink + weight * static_cast<C>(value[d]);
  }
  if (lane == 0) {
    best_of[warp] = best;
    sum_of[warp] = sum;
  }
#pragma unroll
  for (int e = 0; e < each; ++e)
    if (const int d = lane + 32 * e; d < static_cast<int>(Depth)) row_of[warp][d] = row[e];
  __syncthreads();
  for (index_t d = threadIdx.x; d < Depth; d += 32 * warps) {
    C largest = best_of[0], total = 0, all = 0;  // the first warp has a key
    for (int w = 1; w < warps; ++w)
      if (best_of[w] > largest) largest = best_of[w];
    for (int w = 0; w < warps; ++w) {
      const C share = math::exp(best_of[w] - largest);  // 0 of a warp without keys
      total += share * sum_of[w];
      all += share * row_of[w][d];
    }
    to[d] = convert_element<T>(all / total);
  }
}

}  // namespace cuda_kit

template <index_t Heads>
struct kernel<op::cached_attention<Heads>, cuda> {
  /// Puts the keys and values of the first past.count times of qkv where they belong, and attends from these times.
  template <class T, class Y, class X, index_t Context, index_t Depth>
  static void forward(context<cuda>& ctx, view<T, Y, cuda> y, view<const T, X, cuda> qkv,
                      const key_value_view<T, shape<X::extent(0), Heads, Context, Depth>, cuda>& past) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    constexpr index_t batch = X::extent(0), time = X::extent(1);
    if (past.count > 0)
      launch(ctx, &keep_keys_kernel<T, Heads, time, Context, Depth>, blocks_for(batch * past.count * Heads * Depth),
             block_threads, past.keys.data(), past.values.data(), qkv.data(), batch, past.position, past.count);
    launch(ctx, &cached_attention_kernel<C, T, Heads, time, Context, Depth>,
           static_cast<unsigned>(batch * time * Heads), 32 * cached_attention_warps, y.data(), qkv.data(),
           static_cast<const T*>(past.keys.data()), static_cast<const T*>(past.values.data()), past.position,
           past.count, static_cast<C>(gradus::detail::inverse_square_root(Depth)));
  }
};

}  // namespace gradus
