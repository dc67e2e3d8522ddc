#pragma once
// Attention of new queries to a key-value cache on a GPU. Several blocks share the keys of a query.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../../core/error.hpp"
#include "../../core/math.hpp"
#include "../../gpu/access.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/workspace.hpp"
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

/// How the lanes of a warp divide keys: `lanes` of them have one, in runs of 16 bytes where Depth allows it.
template <class T, index_t Depth>
struct cached_layout {
  static constexpr int warps = 8;
  static constexpr int run = Depth % vector_width<T> == 0 ? vector_width<T> : 1;
  static constexpr int runs = static_cast<int>(Depth) / run;
  static constexpr int lanes = runs < 32 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(runs))) : 32;
  static constexpr int per_lane = (runs + lanes - 1) / lanes;  ///< runs
  static constexpr int rows = warps * (32 / lanes);            ///< keys of a block at once
};
/// Keys of a part: blocks share a query of a long context, unless a sequence has so many queries that they suffice.
inline constexpr index_t cached_part = 128;
constexpr index_t cached_parts(const attention_sizes& of, index_t keys) {
  return of.queries * of.heads >= 1024 ? 1 : (keys + cached_part - 1) / cached_part;
}
/// What softmax has of some keys: their largest score, and the sums of their weights and of their weighted values.
template <class C, index_t Depth>
struct cached_sums {
  C most, sum, row[Depth];
};
/// Element d of the merged sums of `count` parts, in order; and the merged sum and largest score.
template <class C, index_t Depth>
__device__ inline C merge_sums(const cached_sums<C, Depth>* parts, int count, index_t d, C& most, C& sum) {
  most = -INFINITY;
  for (int i = 0; i < count; ++i) most = parts[i].most > most ? parts[i].most : most;
  C all = sum = 0;
  for (int i = 0; i < count; ++i) {
    if (parts[i].sum == 0) continue;  // it has no key
    const C share = math::exp(parts[i].most - most);
    sum += share * parts[i].sum;
    all += share * parts[i].row[d];
  }
  return all;
}

/// One query, block (b * time + t) * heads + h of time t of head h of sequence b, and part blockIdx.y of its keys: to y
/// if that is all, or else to sums [queries, parts]. Output rows from `count` on are zero.
template <class C, class T, index_t Depth, class Rules>
__global__ void __launch_bounds__(32 * cached_layout<T, Depth>::warps)
    cached_attention_kernel(T* y, cached_sums<C, Depth>* sums, attention_operand<const T> x, const T* keys,
                            const T* values, cached_extents extents, Rules is) {
  using layout = cached_layout<T, Depth>;
  constexpr int run = layout::run, runs = layout::runs;
  static_assert(layout::rows * sizeof(cached_sums<C, Depth>) <= (std::size_t{48} << 10),
                "cached_attention: a head this wide does not fit into shared memory");
  __shared__ cached_sums<C, Depth> of_row[layout::rows];
  const int lane = static_cast<int>(threadIdx.x) % layout::lanes, row = static_cast<int>(threadIdx.x) / layout::lanes;
  unsigned sequence = blockIdx.x;
  const index_t h = extents.heads.divide(sequence), t = extents.time.divide(sequence);
  T* const to = y + static_cast<index_t>(blockIdx.x) * Depth;
  if (t >= extents.count) {
    if (blockIdx.y == 0)
      for (index_t d = threadIdx.x; d < Depth; d += blockDim.x) to[d] = convert_element<T>(0.0f);
    return;
  }
  const T* const query = x.data + sequence * x.batch + t * x.time + h * x.head;
  const index_t kv = extents.group.quotient(static_cast<unsigned>(h));
  const index_t head = (sequence * index_t{extents.kv_heads.value} + kv) * extents.context * Depth;
  const index_t at = extents.position + t, seen = at + 1;
  is.enter_sequence(sequence);
  vector_of<C, run> q[layout::per_lane], all[layout::per_lane]{};
  const auto each = [&](const auto& f) {
#pragma unroll
    for (int e = 0; e < layout::per_lane; ++e)
      if (const int r = lane + layout::lanes * e; r < runs) f(e, r * run);
  };
  each([&](int e, int d) {
    const auto loaded = load<run, true>(query + d, run);
#pragma unroll
    for (int i = 0; i < run; ++i) q[e].at[i] = static_cast<C>(loaded.at[i]) * is.scale();
  });
  C most = -INFINITY, sum = 0;
  const index_t begin = is.first_key(at) + blockIdx.y * cached_part;
  const index_t end = gridDim.y == 1 || begin + cached_part > seen ? seen : begin + cached_part;
  for (index_t first = begin; first < end; first += layout::rows) {  // as often in all lanes of a warp
    const index_t j = first + static_cast<index_t>(row);
    const bool sees = j < end && is.sees(at, j, seen);
    C score = 0;
    vector_of<T, run> value[layout::per_lane];
    if (sees)
      each([&](int e, int d) {
        const auto key = load<run, true>(keys + head + j * Depth + d, run);
        value[e] = load<run, true>(values + head + j * Depth + d, run);
#pragma unroll
        for (int i = 0; i < run; ++i) score += q[e].at[i] * static_cast<C>(key.at[i]);
      });
#pragma unroll
    for (int distance = layout::lanes / 2; distance > 0; distance /= 2)
      score += __shfl_xor_sync(0xFFFFFFFFu, score, distance);
    if (!sees) continue;
    const C new_most = score > most ? score : most;
    const C rescale = math::exp(most - new_most), weight = math::exp(score - new_most);  // 0 and 1 at the first key
    most = new_most;
    sum = sum * rescale + weight;
    each([&](int e, int) {
#pragma unroll
      for (int i = 0; i < run; ++i) all[e].at[i] = all[e].at[i] * rescale + weight * static_cast<C>(value[e].at[i]);
    });
  }
  if (lane == 0) of_row[row].most = most, of_row[row].sum = sum;
  each([&](int e, int d) {
#pragma unroll
    for (int i = 0; i < run; ++i) of_row[row].row[d + i] = all[e].at[i];
  });
  __syncthreads();
  cached_sums<C, Depth>* const part =
      gridDim.y == 1 ? nullptr : sums + static_cast<index_t>(blockIdx.x) * gridDim.y + blockIdx.y;
  for (index_t d = threadIdx.x; d < Depth; d += blockDim.x) {
    C of_all = 0, total = 0;
    const C merged = merge_sums(of_row, layout::rows, d, of_all, total);
    if (part == nullptr) {
      to[d] = convert_element<T>(total == 0 ? C(0) : merged / total);
    } else {
      part->row[d] = merged;
      if (d == 0) part->most = of_all, part->sum = total;
    }
  }
}
/// The results of queries whose keys were in several parts.
template <class C, class T, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    merge_cached_kernel(T* y, const cached_sums<C, Depth>* sums, int parts, cached_extents extents) {
  unsigned sequence = blockIdx.x;
  extents.heads.divide(sequence);
  if (extents.time.divide(sequence) >= extents.count) return;
  for (index_t d = threadIdx.x; d < Depth; d += blockDim.x) {
    C most = 0, total = 0;
    const C merged = merge_sums(sums + static_cast<index_t>(blockIdx.x) * parts, parts, d, most, total);
    y[static_cast<index_t>(blockIdx.x) * Depth + d] = convert_element<T>(total == 0 ? C(0) : merged / total);
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
    const auto parts_of = [&](index_t positions) {  // whose last `window` a query sees
      if constexpr (!std::is_same_v<Rules, only_causal<true>>)
        if (rules.window != 0) positions = std::min(positions, rules.window);
      return cached_parts(of, positions);
    };
    const index_t parts = parts_of(x.position + x.count), most = parts_of(of.keys);
    if (most > 65535) throw error("cached_attention: the GPU supports at most 8388480 keys");
    // As much as a full cache needs, so that it grows once.
    auto* const sums = most <= 1 ? nullptr : scratch<cached_sums<C, Depth>>(ctx, queries * most);
    const auto run = [&](auto is) {
      launch(ctx, &cached_attention_kernel<C, T, Depth, decltype(is)>,
             dim3(static_cast<unsigned>(queries), static_cast<unsigned>(std::max<index_t>(parts, 1))),
             32 * cached_layout<T, Depth>::warps, out.data, sums, x.q, static_cast<const T*>(x.past_keys.data),
             static_cast<const T*>(x.past_values.data), extents, is);
    };
    if constexpr (std::is_same_v<Rules, only_causal<true>>) run(plain_launch<C, Depth, false>{});
    else run(ruled_launch<C>{rules, {}, static_cast<int>(of.group())});
    if (parts > 1)
      launch(ctx, &merge_cached_kernel<C, T, Depth>, static_cast<unsigned>(queries),
             std::min<unsigned>(block_threads, (Depth + 31) / 32 * 32), out.data, std::as_const(sums),
             static_cast<int>(parts), extents);
  }
};

}  // namespace gradus
