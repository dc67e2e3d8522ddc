#pragma once
// Attention of new queries to a key-value cache on a GPU: reads the cache once, at memory bandwidth.

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "../../core/error.hpp"
#include "../../core/math.hpp"
#include "../../gpu/access.hpp"
#include "../../gpu/launch.hpp"
#include "cached.hpp"
#include "cuda_rules.hpp"

namespace gradus {

namespace cuda_kit {

/// Extents for kernels with a key-value cache: the caches are [B, H, context, D], the first `count` of `time` new rows
/// have the positions from `position` on, and each head of the cache serves `group` of the `heads` heads of queries.
struct cached_extents {
  divisor<unsigned> heads, kv_heads, time, group;
  index_t context, position, count;
};

/// Appends the keys and values of the first `count` times to the cache, one element per thread.
template <class T, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    append_keys_kernel(T* keys, T* values, attention_operand<const T> k, attention_operand<const T> v,
                       cached_extents extents, divisor<unsigned> kept, index_t size) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const index_t d = i % Depth;
  unsigned b = static_cast<unsigned>(i / Depth);
  const unsigned h = extents.kv_heads.divide(b), t = kept.divide(b);
  const index_t to = ((b * index_t{extents.kv_heads.value} + h) * extents.context + extents.position + t) * Depth + d;
  keys[to] = k.data[b * k.batch + t * k.time + h * k.head + d];
  values[to] = v.data[b * v.batch + t * v.time + h * v.head + d];
}

inline constexpr int cached_attention_warps = 8;

/// One block per query: time t of head h of sequence b is block (b * time + t) * heads + h. Each warp takes every
/// eighth key, its lanes split the head; partial sums are merged in order. Output rows from `count` on are zero.
template <class C, class T, index_t Depth, class Rules>
__global__ void __launch_bounds__(32 * cached_attention_warps)
    cached_attention_kernel(T* y, attention_operand<const T> x, const T* keys, const T* values, cached_extents extents,
                            Rules is) {
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
  const T* const query = x.data + sequence * x.batch + t * x.time + h * x.head;
  const index_t kv = extents.group.quotient(static_cast<unsigned>(h));
  const index_t head = (sequence * index_t{extents.kv_heads.value} + kv) * extents.context * Depth;
  const index_t at = extents.position + t, seen = at + 1;
  is.enter_sequence(sequence);
  C q[per_lane], row[per_lane];
#pragma unroll
  for (int e = 0; e < per_lane; ++e) {
    const int d = lane + 32 * e;
    q[e] = d < static_cast<int>(Depth) ? static_cast<C>(query[d]) * is.scale() : C(0);
    row[e] = 0;
  }
  C row_max = -INFINITY, sum = 0;
  for (index_t j = is.first_key(at) + static_cast<index_t>(warp); j < seen; j += warps) {
    if (!is.sees(at, j, seen)) continue;
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
    C new_max = max_of[0], total = 0, all = 0;
    for (int w = 1; w < warps; ++w)
      if (max_of[w] > new_max) new_max = max_of[w];
    for (int w = 0; w < warps; ++w) {
      const C share = math::exp(max_of[w] - is.shift(new_max));  // 0 for a warp without keys
      total += share * sum_of[w];
      all += share * row_of[w][d];
    }
    to[d] = convert_element<T>(all / is.shift_sum(total));
  }
}

}  // namespace cuda_kit

template <index_t Depth, class Rules>
struct kernel<op::cached_attention<Depth, Rules>, cuda> {
  /// Appends the keys and values of the first x.count times to the cache, and attends from these times.
  template <class T>
  static void forward(context<cuda>& ctx, const attention_sizes& of, const Rules& rules, attention_operand<T> out,
                      const detail::cached_operands<T>& x) {
    using namespace cuda_kit;
    using C = compute_type<T>;
    if constexpr (!std::is_same_v<Rules, only_causal<true>>)
      if (rules.cap != 0) throw error("attention(q, k, v, options): cap: the CPU has it, the GPU does not");
    const index_t queries = of.batch * of.queries * of.heads;
    if (queries >= index_t{1} << 31) throw error("cached_attention: the GPU supports fewer than 2^31 queries");
    const auto by = [](index_t n) { return divisor<unsigned>(static_cast<unsigned>(n)); };
    const cached_extents extents = {by(of.heads), by(of.kv_heads), by(of.queries), by(of.group()),
                                    of.keys,      x.position,      x.count};
    const index_t kept = of.batch * x.count * of.kv_heads * Depth;
    if (kept > 0)
      launch(ctx, &append_keys_kernel<T, Depth>, blocks_for(kept), block_threads, x.past_keys.data, x.past_values.data,
             x.k, x.v, extents, by(x.count), kept);
    const auto run = [&](auto is) {
      launch(ctx, &cached_attention_kernel<C, T, Depth, decltype(is)>, static_cast<unsigned>(queries),
             32 * cached_attention_warps, out.data, x.q, static_cast<const T*>(x.past_keys.data),
             static_cast<const T*>(x.past_values.data), extents, is);
    };
    if constexpr (std::is_same_v<Rules, only_causal<true>>) run(plain_launch<C, Depth, false>{});
    else run(ruled_launch<C>{rules, {}, static_cast<int>(of.group())});
  }
};

}  // namespace gradus
