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

/// What kernels of attention with a past are told: the extents of qkv [B, time, 3*H*D] and of the caches [B, H,
/// context, D], and that `count` of the times go to those from `position` on.
struct cached_extents {
  divisor<unsigned> heads, time;
  index_t context, position, count;
};

/// Copies the keys and values of the first `count` times. An element a thread.
template <class T, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    keep_keys_kernel(T* keys, T* values, const T* qkv, cached_extents of, divisor<unsigned> kept, index_t size) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const index_t d = i % Depth;
  unsigned b = static_cast<unsigned>(i / Depth);
  const unsigned h = of.heads.divide(b), t = kept.divide(b);
  const index_t heads = of.heads.value;
  const T* const from = qkv + ((static_cast<index_t>(b) * of.time.value + t) * 3 * heads + h) * Depth + d;
  const index_t to = ((b * heads + h) * of.context + of.position + t) * Depth + d;
  keys[to] = from[heads * Depth];
  values[to] = from[2 * heads * Depth];
}

inline constexpr int cached_attention_warps = 8;

/// A block a query: time t of head h of sequence b, with block index (b * time + t) * heads + h. Each warp goes through
/// every eighth key, its lanes share the numbers of a head; the warps' sums are put together in order. Rows from
/// `count` on become zero.
template <class C, class T, index_t Depth>
__global__ void __launch_bounds__(32 * cached_attention_warps)
    cached_attention_kernel(T* y, const T* qkv, const T* keys, const T* values, cached_extents of, C scale) {
  constexpr int warps = cached_attention_warps, each = static_cast<int>((Depth + 31) / 32);
  static_assert(warps * (2 + Depth) * sizeof(C) <= (std::size_t{48} << 10),
                "cached_attention: a head this wide does not fit into shared memory");
  __shared__ C best_of[warps], sum_of[warps], row_of[warps][Depth];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  unsigned sequence = blockIdx.x;
  const index_t h = of.heads.divide(sequence), t = of.time.divide(sequence);
  T* const to = y + static_cast<index_t>(blockIdx.x) * Depth;
  if (t >= of.count) {
    for (index_t d = threadIdx.x; d < Depth; d += 32 * warps) to[d] = convert_element<T>(0.0f);
    return;
  }
  const index_t heads = of.heads.value;
  const T* const query = qkv + (blockIdx.x * index_t{3} - 2 * h) * Depth;  // rows of 3 times the heads
  const index_t head = (sequence * heads + h) * of.context * Depth, seen = of.position + t + 1;
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
    static_assert(batch * time * Heads < (index_t{1} << 31), "cached_attention: the GPU takes fewer than 2^31 queries");
    const auto by = [](index_t n) { return divisor<unsigned>(static_cast<unsigned>(n)); };
    const cached_extents extents = {by(Heads), by(time), Context, past.position, past.count};
    const index_t kept = batch * past.count * Heads * Depth;
    if (kept > 0)
      launch(ctx, &keep_keys_kernel<T, Depth>, blocks_for(kept), block_threads, past.keys.data(), past.values.data(),
             qkv.data(), extents, by(past.count), kept);
    launch(ctx, &cached_attention_kernel<C, T, Depth>, static_cast<unsigned>(batch * time * Heads),
           32 * cached_attention_warps, y.data(), qkv.data(), static_cast<const T*>(past.keys.data()),
           static_cast<const T*>(past.values.data()), extents,
           static_cast<C>(gradus::detail::inverse_square_root(Depth)));
  }
};

}  // namespace gradus
