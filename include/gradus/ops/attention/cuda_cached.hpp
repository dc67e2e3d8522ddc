#pragma once
// Attention of new queries to a key-value cache on a GPU: reads the cache once, at memory bandwidth.

#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/access.hpp"
#include "../../cuda/launch.hpp"
#include "cached.hpp"

namespace gradus {

namespace cuda_kit {

/// Extents for kernels with a key-value cache: qkv is [B, time, 3*H*D], the caches are [B, H, context, D], and the
/// first `count` times of qkv have the positions from `position` on.
struct cached_extents {
  divisor<unsigned> heads, time;
  index_t context, position, count;
};

/// Appends the keys and values of the first `count` times to the cache, one element per thread.
template <class T, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    append_keys_kernel(T* keys, T* values, const T* qkv, cached_extents extents, divisor<unsigned> kept, index_t size) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const index_t d = i % Depth;
  unsigned b = static_cast<unsigned>(i / Depth);
  const unsigned h = extents.heads.divide(b), t = kept.divide(b);
  const index_t heads = extents.heads.value;
  const T* const from = qkv + ((static_cast<index_t>(b) * extents.time.value + t) * 3 * heads + h) * Depth + d;
  const index_t to = ((b * heads + h) * extents.context + extents.position + t) * Depth + d;
  keys[to] = from[heads * Depth];
  values[to] = from[2 * heads * Depth];
}

inline constexpr int cached_attention_warps = 8;

/// One block per query: time t of head h of sequence b is block (b * time + t) * heads + h. Each warp takes every
/// eighth key, its lanes split the head; partial sums are merged in order. Output rows from `count` on are zero.
template <class C, class T, index_t Depth>
__global__ void __launch_bounds__(32 * cached_attention_warps)
    cached_attention_kernel(T* y, const T* qkv, const T* keys, const T* values, cached_extents extents, C scale) {
  constexpr int warps = cached_attention_warps, per_lane = static_cast<int>((Depth + 31) / 32);
  static_assert(warps * (2 + Depth) * sizeof(C) <= (std::size_t{48} << 10),
                "cached_attention: a head this wide does not fit into shared memory");
  __shared__ C max_of[warps], sum_of[warps], row_of[warps][Depth];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  unsigned sequence = blockIdx.x;
  const index_t h = extents.heads.divide(sequence), t = extents.time.divide(sequence);
  T* const to = y + static_cast<index_t>(blockIdx.x) * Depth;
  if (t >= extents.count) {
    for (index_t d = threadIdx.x; d < Depth; d += 32 * warps) to[d] = convert_element<T>(0.0f);
    return;
  }
  const index_t heads = extents.heads.value;
  const T* const query = qkv + (blockIdx.x * index_t{3} - 2 * h) * Depth;  // rows of 3 times the heads
  const index_t head = (sequence * heads + h) * extents.context * Depth, seen = extents.position + t + 1;
  C q[per_lane], row[per_lane];
#pragma unroll
  for (int e = 0; e < per_lane; ++e) {
    const int d = lane + 32 * e;
    q[e] = d < static_cast<int>(Depth) ? static_cast<C>(query[d]) * scale : C(0);
    row[e] = 0;
  }
  C row_max = -INFINITY, sum = 0;
  for (index_t j = static_cast<index_t>(warp); j < seen; j += warps) {
    const T* const key = keys + head + j * Depth;
    const T* const value = values + head + j * Depth;
    C score = 0;
#pragma unroll
    for (int e = 0; e < per_lane; ++e)
      if (const int d = lane + 32 * e; d < static_cast<int>(Depth)) score += q[e] * static_cast<C>(key[d]);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, distance);
    const C new_max = score > row_max ? score : row_max;
    const C rescale = math::exp(row_max - new_max), weight = math::exp(score - new_max);  // 0 and 1 at the first key
    row_max = new_max;
    sum = sum * rescale + weight;
#pragma unroll
    for (int e = 0; e < per_lane; ++e)
      if (const int d = lane + 32 * e; d < static_cast<int>(Depth))
        row[e] = row[e] * rescale + weight * static_cast<C>(value[d]);
  }
  if (lane == 0) {
    max_of[warp] = row_max;
    sum_of[warp] = sum;
  }
#pragma unroll
  for (int e = 0; e < per_lane; ++e)
    if (const int d = lane + 32 * e; d < static_cast<int>(Depth)) row_of[warp][d] = row[e];
  __syncthreads();
  for (index_t d = threadIdx.x; d < Depth; d += 32 * warps) {
    C new_max = max_of[0], total = 0, all = 0;  // the first warp has a key
    for (int w = 1; w < warps; ++w)
      if (max_of[w] > new_max) new_max = max_of[w];
    for (int w = 0; w < warps; ++w) {
      const C share = math::exp(max_of[w] - new_max);  // 0 for a warp without keys
      total += share * sum_of[w];
      all += share * row_of[w][d];
    }
    to[d] = convert_element<T>(all / total);
  }
}

}  // namespace cuda_kit

template <index_t Heads>
struct kernel<op::cached_attention<Heads>, cuda> {
  /// Appends the keys and values of the first past.count times of qkv to the cache, and attends from these times.
  template <class T, class Y, class X, index_t Context, index_t Depth>
  static void forward(context<cuda>& ctx, view<T, Y, cuda> y, view<const T, X, cuda> qkv,
                      const key_value_view<T, shape<X::extent(0), Heads, Context, Depth>, cuda>& past) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    constexpr index_t batch = X::extent(0), time = X::extent(1);
    static_assert(batch * time * Heads < (index_t{1} << 31),
                  "cached_attention: the GPU supports fewer than 2^31 queries");
    const auto by = [](index_t n) { return divisor<unsigned>(static_cast<unsigned>(n)); };
    const cached_extents extents = {by(Heads), by(time), Context, past.position, past.count};
    const index_t kept = batch * past.count * Heads * Depth;
    if (kept > 0)
      launch(ctx, &append_keys_kernel<T, Depth>, blocks_for(kept), block_threads, past.keys.data(), past.values.data(),
             qkv.data(), extents, by(past.count), kept);
    launch(ctx, &cached_attention_kernel<C, T, Depth>, static_cast<unsigned>(batch * time * Heads),
           32 * cached_attention_warps, y.data(), qkv.data(), static_cast<const T*>(past.keys.data()),
           static_cast<const T*>(past.values.data()), extents,
           static_cast<C>(gradus::detail::inverse_square_root(Depth)));
  }
};

}  // namespace gradus
