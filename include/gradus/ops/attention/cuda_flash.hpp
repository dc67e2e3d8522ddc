#pragma once
// FlashAttention-2 on CUDA cores, for element types and head widths that tensor cores do not take.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "../../core/math.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/runs.hpp"
#include "attention.hpp"
#include "cuda_rules.hpp"

namespace gradus::cuda_kit {

/// Attention of one head in tiles in shared memory: scores are never stored (Dao, "FlashAttention-2", 2023).
///
/// A block of 128 threads owns a tile of block_m rows and streams tiles of block_n rows: queries and keys in forward
/// and dq, keys and queries in dk and dv. Thread (ty, tx) of 16 x 8 owns Rows rows from Rows ty on, so that eight
/// adjacent threads of a warp share a row. One block sums each result, in a fixed order.
/// @tparam C type of scores and sums
/// @tparam T type of operands and results
/// @tparam Rules plain_launch or ruled_launch: which scores count, and what is added to them
/// @tparam Rows rows of a thread; a tile of few takes less shared memory, and loads more from global memory
/// @tparam Columns score columns of a thread
template <class C, class T, index_t Depth, class Rules, int Rows = 4, int Columns = 4>
struct flash_attention {
  using forward = flash_attention;  ///< the tiles of its forward kernel
  using rules = Rules;
  static constexpr int threads = 128;
  static constexpr int rows = Rows, columns = Columns;
  static constexpr int block_m = threads / 8 * rows, block_n = 8 * columns;  ///< the block's tile and streamed tiles
  static constexpr int width = (static_cast<int>(Depth) + 31) / 32 * 32;     ///< of a tile's row, padded with zeros
  static constexpr int row_stride = width + 4;                               ///< eight rows start in different banks
  static constexpr int groups = width / 32;  ///< runs of four columns of a row that a thread owns
  static constexpr int scores_stride = block_n + 4;
  static_assert(threads % 32 == 0 && width % 32 == 0, "the eight threads of a row are in one warp");
  static_assert(row_stride % 4 == 0 && scores_stride % 4 == 0, "runs of four are aligned");
  static_assert(block_n <= threads, "one thread loads each row's lse and delta");
  static constexpr index_t row_blocks_of(index_t n) { return (n + block_m - 1) / block_m; }
  static constexpr std::size_t forward_bytes =
      sizeof(C) * (block_m * row_stride + 2 * block_n * row_stride + block_m * scores_stride);
  static constexpr std::size_t dq_bytes =
      sizeof(C) * (2 * block_m * row_stride + 2 * block_n * row_stride + block_m * scores_stride);
  static constexpr std::size_t dkv_bytes = dq_bytes + sizeof(C) * 2 * block_n;
  static constexpr bool can_shrink = rows > 1 || columns > 1;
  /// The next tiles that take less shared memory: rows give way first.
  using smaller = flash_attention<C, T, Depth, Rules, (rows == 1 ? 1 : rows / 2), (rows > 1 ? columns : columns / 2)>;

  using four = vector_of<C, 4>;
  using scores = C[rows][columns];
  using sums = four[rows][groups];

  static __device__ int ty() { return static_cast<int>(threadIdx.x) / 8; }
  static __device__ int tx() { return static_cast<int>(threadIdx.x) % 8; }

  template <class U>
  static __device__ U* head(const attention_operand<U>& x, index_t heads, index_t pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// The head of keys or values that head `pair` of queries uses.
  template <class U>
  static __device__ U* head_of_keys(const attention_operand<U>& x, const Rules& is, index_t heads, index_t pair) {
    return head(x, heads / is.group, pair / is.group);
  }
  /// Loads rows first .. of a head into a tile, times `factor`; rows from `end` on are zero.
  template <int Count>
  static __device__ void load_tile(C* tile, const T* from, index_t stride, index_t first, index_t end, C factor) {
    constexpr int run = Depth % vector_width<T> == 0 ? vector_width<T> : 1;
    constexpr int runs = width / run;
    for (int i = static_cast<int>(threadIdx.x); i < Count * runs; i += threads) {
      const int r = i / runs, at = i % runs * run;
      vector_of<T, run> v{};
      if (at < static_cast<int>(Depth) && first + r < end) v = load<run, true>(from + (first + r) * stride + at, run);
#pragma unroll
      for (int k = 0; k < run; ++k) tile[r * row_stride + at + k] = static_cast<C>(v.at[k]) * factor;
    }
  }
  /// Loads the next tiles of keys and values; synchronizes the block before and after.
  static __device__ void load_kv_tiles(C* ks, const attention_operand<const T>& k, C* vs,
                                       const attention_operand<const T>& v, const Rules& is, index_t heads,
                                       index_t pair, index_t first, index_t end) {
    __syncthreads();
    load_tile<block_n>(ks, head_of_keys(k, is, heads, pair), k.time, first, end, C(1));
    load_tile<block_n>(vs, head_of_keys(v, is, heads, pair), v.time, first, end, C(1));
    __syncthreads();
  }
  /// sum = A B^T for this thread's rows of A and rows tx, tx + 8, .. of B.
  static __device__ void multiply_rows(scores& sum, const C* a, const C* b) {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int j = 0; j < columns; ++j) sum[r][j] = 0;
#pragma unroll 4
    for (int d = 0; d < width; d += 4) {
      four x[rows], y[columns];
#pragma unroll
      for (int r = 0; r < rows; ++r) x[r] = load<4, true>(a + (ty() * rows + r) * row_stride + d, 4);
#pragma unroll
      for (int j = 0; j < columns; ++j) y[j] = load<4, true>(b + (tx() + 8 * j) * row_stride + d, 4);
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int j = 0; j < columns; ++j)
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[r][j] += x[r].at[k] * y[j].at[k];
    }
  }
  /// sum += W B for this thread's rows of the weights, which its warp has stored.
  static __device__ void add_product(sums& sum, const C* weights, const C* b) {
#pragma unroll 2
    for (int j = 0; j < block_n; j += 4) {
      four w[rows];
#pragma unroll
      for (int r = 0; r < rows; ++r) w[r] = load<4, true>(weights + (ty() * rows + r) * scores_stride + j, 4);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          const four v = load<4, true>(b + (j + k) * row_stride + (tx() + 8 * g) * 4, 4);
#pragma unroll
          for (int r = 0; r < rows; ++r)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[r][g].at[i] += w[r].at[k] * v.at[i];
        }
    }
  }
  static __device__ void store_scores(C* to, const scores& s) {
    __syncwarp();  // until the warp has read the previous scores
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int j = 0; j < columns; ++j) to[(ty() * rows + r) * scores_stride + tx() + 8 * j] = s[r][j];
    __syncwarp();
  }
  /// Stores this thread's sums, times factor(row), to rows first .. end - 1 of a head.
  template <class F>
  static __device__ void store_rows(T* to, index_t stride, index_t first, index_t end, bool accumulate, const sums& sum,
                                    const F& factor) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const index_t row = first + ty() * rows + r;
      if (row >= end) continue;
      const C by = factor(r);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        const int column = (tx() + 8 * g) * 4;
        T* const at = to + row * stride + column;
        const auto value = [&](int i) { return sum[r][g].at[i] * by; };
        if (Depth % 4 == 0 && column < static_cast<int>(Depth)) put<4, true>(at, accumulate, 4, value);
        else if (column < static_cast<int>(Depth))
          put<4, false>(at, accumulate, static_cast<int>(Depth) - column, value);
      }
    }
  }
  template <class F>
  static __device__ C reduce_row(C x, const F& f) {
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
  }
};

/// Of the GPU that has most shared memory a block.
inline constexpr std::size_t most_block_memory = std::size_t{227} << 10;
/// What a block of forward needs with the tiles F, and one of backward.
struct flash_forward {
  template <class F>
  static constexpr std::size_t bytes = F::forward_bytes;
};
struct flash_backward {
  template <class F>
  static constexpr std::size_t bytes = F::dkv_bytes;
};
/// F, or the first smaller tiles of which a block needs at most `Most` bytes.
template <class Pass, std::size_t Most, class F>
constexpr auto tiles_within() {
  if constexpr (Pass::template bytes<F> <= Most || !F::can_shrink) return F{};
  else return tiles_within<Pass, Most, typename F::smaller>();
}
/// Calls run(tiles) with the tiles of a pass that fit in the stream's GPU: two are compiled where the larger do not fit
/// in all.
template <class Pass, class F, class Run>
void with_flash_tiles(const cuda_stream& on, const Run& run) {
  using large = decltype(tiles_within<Pass, most_block_memory, F>());
  using small = decltype(tiles_within<Pass, least_block_memory, F>());
  if constexpr (!std::is_same_v<large, small>)
    if (Pass::template bytes<large> > on.block_memory()) return run(small{});
  run(large{});
}

template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_forward_kernel(index_t pairs, index_t heads, attention_operand<T> out, C* lse,
                             attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                             index_t queries, index_t keys, typename F::rules is) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const ks = qs + F::block_m * F::row_stride;
  C* const vs = ks + F::block_n * F::row_stride;
  C* const weights = vs + F::block_n * F::row_stride;
  const index_t blocks = F::row_blocks_of(queries);
  const index_t pair = blockIdx.x % pairs,
                q0 = (blocks - 1 - blockIdx.x / pairs) * F::block_m;  // longest first
  is.enter(heads, pair);
  F::template load_tile<F::block_m>(qs, F::head(q, heads, pair), q.time, q0, queries, is.scale());
  typename F::sums sum{};
  C row_max[F::rows], row_sum[F::rows];
#pragma unroll
  for (int r = 0; r < F::rows; ++r) row_max[r] = -INFINITY, row_sum[r] = 0;
  const index_t end = is.end_key(q0, F::block_m, keys);
  for (index_t j0 = is.first_key(q0) / F::block_n * F::block_n; j0 < end; j0 += F::block_n) {
    if (!is.has_keys(j0, F::block_n)) continue;
    F::load_kv_tiles(ks, k, vs, v, is, heads, pair, j0, keys);
    typename F::scores s;
    F::multiply_rows(s, qs, ks);
#pragma unroll
    for (int r = 0; r < F::rows; ++r) {
      C new_max = row_max[r];
#pragma unroll
      for (int j = 0; j < F::columns; ++j) {
        const index_t query = q0 + F::ty() * F::rows + r, key = j0 + F::tx() + 8 * j;
        s[r][j] = is.sees(query, key, keys) ? is.score(s[r][j], query, key) : -INFINITY;
        if (s[r][j] > new_max) new_max = s[r][j];
      }
      new_max = F::reduce_row(new_max, [](C a, C b) { return b > a ? b : a; });
      const C shift = is.shift(new_max), rescale = math::exp(row_max[r] - shift);
      row_max[r] = new_max;
      C mine = 0;
#pragma unroll
      for (int j = 0; j < F::columns; ++j) {
        mine += s[r][j] = math::exp(s[r][j] - shift);
        s[r][j] = is.kept(s[r][j], q0 + F::ty() * F::rows + r, j0 + F::tx() + 8 * j);
      }
      row_sum[r] = row_sum[r] * rescale + mine;
#pragma unroll
      for (int g = 0; g < F::groups; ++g)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[r][g].at[i] *= rescale;
    }
    F::store_scores(weights, s);
    F::add_product(sum, weights, vs);
  }
#pragma unroll
  for (int r = 0; r < F::rows; ++r) row_sum[r] = F::reduce_row(row_sum[r], [](C a, C b) { return a + b; });
  F::store_rows(F::head(out, heads, pair), out.time, q0, queries, false, sum,
                [&](int r) { return is.inverse(row_sum[r]); });
  if (lse == nullptr || F::tx() != 0) return;
#pragma unroll
  for (int r = 0; r < F::rows; ++r)
    if (const index_t row = q0 + F::ty() * F::rows + r; row < queries)
      lse[pair * queries + row] = is.shift(row_max[r]) + math::log(is.shift_sum(row_sum[r]));
}

/// delta = dy . y of each row: the sum over the keys of weight times its gradient.
template <class C, class T, index_t Depth>
struct delta_rows {
  static constexpr int run = Depth % vector_width<T> == 0 ? vector_width<T> : 1;
  static constexpr int runs = static_cast<int>(Depth) / run;
  static constexpr int lanes = static_cast<int>(std::min<index_t>(32, std::bit_ceil(static_cast<index_t>(runs))));
};
template <class C, class T, index_t Depth>
__global__ void __launch_bounds__(block_threads)
    attention_delta_kernel(C* delta, index_t pairs, index_t heads, index_t queries, attention_operand<const T> dy,
                           attention_operand<const T> y) {
  using how = delta_rows<C, T, Depth>;
  const index_t row = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) / how::lanes;
  const int lane = static_cast<int>(threadIdx.x) % how::lanes;
  C sum = 0;
  if (row < pairs * queries) {
    const index_t pair = row / queries, time = row % queries;
    const T* const a = dy.data + pair / heads * dy.batch + pair % heads * dy.head + time * dy.time;
    const T* const b = y.data + pair / heads * y.batch + pair % heads * y.head + time * y.time;
    for (int r = lane; r < how::runs; r += how::lanes) {
      const auto u = load<how::run, true>(a + r * how::run, how::run),
                 v = load<how::run, true>(b + r * how::run, how::run);
#pragma unroll
      for (int i = 0; i < how::run; ++i) sum += static_cast<C>(u.at[i]) * static_cast<C>(v.at[i]);
    }
  }
#pragma unroll
  for (int distance = how::lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, distance);
  if (lane == 0 && row < pairs * queries) delta[row] = sum;
}

/// dq of a tile of queries: streams the keys.
template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_dq_kernel(index_t pairs, index_t heads, attention_operand<T> dq, attention_operand<const T> dy,
                        attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                        const C* lse, const C* delta, index_t queries, index_t keys, typename F::rules is) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const dys = qs + F::block_m * F::row_stride;
  C* const ks = dys + F::block_m * F::row_stride;
  C* const vs = ks + F::block_n * F::row_stride;
  C* const dscores = vs + F::block_n * F::row_stride;
  const index_t blocks = F::row_blocks_of(queries);
  const index_t pair = blockIdx.x % pairs, q0 = (blocks - 1 - blockIdx.x / pairs) * F::block_m;
  is.enter(heads, pair);
  F::template load_tile<F::block_m>(qs, F::head(q, heads, pair), q.time, q0, queries, is.scale());
  F::template load_tile<F::block_m>(dys, F::head(dy, heads, pair), dy.time, q0, queries, C(1));
  C row_lse[F::rows], row_delta[F::rows];
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const index_t row = q0 + F::ty() * F::rows + r;
    row_lse[r] = row < queries ? lse[pair * queries + row] : C(0);
    row_delta[r] = row < queries ? delta[pair * queries + row] : C(0);
  }
  typename F::sums sum{};
  const index_t end = is.end_key(q0, F::block_m, keys);
  for (index_t j0 = is.first_key(q0) / F::block_n * F::block_n; j0 < end; j0 += F::block_n) {
    if (!is.has_keys(j0, F::block_n)) continue;
    F::load_kv_tiles(ks, k, vs, v, is, heads, pair, j0, keys);
    typename F::scores s, d;
    F::multiply_rows(s, qs, ks);
    F::multiply_rows(d, dys, vs);
#pragma unroll
    for (int r = 0; r < F::rows; ++r)
#pragma unroll
      for (int j = 0; j < F::columns; ++j) {
        const index_t query = q0 + F::ty() * F::rows + r, key = j0 + F::tx() + 8 * j;
        s[r][j] = is.sees(query, key, keys) ? math::exp(is.score(s[r][j], query, key) - row_lse[r]) *
                                                  (is.kept(d[r][j], query, key) - row_delta[r])
                                            : C(0);
      }
    F::store_scores(dscores, s);
    F::add_product(sum, dscores, ks);
  }
  F::store_rows(F::head(dq, heads, pair), dq.time, q0, queries, dq.accumulate, sum, [&](int) { return is.scale(); });
}

/// dk and dv of a tile of keys: streams the queries. Either may be null.
template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_dkv_kernel(index_t pairs, index_t heads, attention_operand<T> dk, attention_operand<T> dv,
                         attention_operand<const T> dy, attention_operand<const T> q, attention_operand<const T> k,
                         attention_operand<const T> v, const C* lse, const C* delta, index_t queries, index_t keys,
                         typename F::rules is) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const ks = reinterpret_cast<C*>(memory);
  C* const vs = ks + F::block_m * F::row_stride;
  C* const qs = vs + F::block_m * F::row_stride;
  C* const dys = qs + F::block_n * F::row_stride;
  C* const weights = dys + F::block_n * F::row_stride;
  C* const row_lse = weights + F::block_m * F::scores_stride;
  C* const row_delta = row_lse + F::block_n;
  const index_t kv_heads = heads / static_cast<index_t>(is.group), kv_pairs = pairs / static_cast<index_t>(is.group);
  const index_t kv_pair = blockIdx.x % kv_pairs, k0 = blockIdx.x / kv_pairs * F::block_m;
  is.enter_sequence(kv_pair / kv_heads);
  F::template load_tile<F::block_m>(ks, F::head(k, kv_heads, kv_pair), k.time, k0, keys, is.scale());
  F::template load_tile<F::block_m>(vs, F::head(v, kv_heads, kv_pair), v.time, k0, keys, C(1));
  typename F::sums sum_k{}, sum_v{};
  const index_t end = is.has_keys(k0, F::block_m) ? is.end_query(k0, F::block_m, queries) : 0;
  for (index_t pair = kv_pair * is.group; pair < (kv_pair + 1) * is.group; ++pair) {
    is.enter(heads, pair);
    for (index_t i0 = is.first_query(k0); i0 < end; i0 += F::block_n) {
      __syncthreads();
      F::template load_tile<F::block_n>(qs, F::head(q, heads, pair), q.time, i0, queries, C(1));
      F::template load_tile<F::block_n>(dys, F::head(dy, heads, pair), dy.time, i0, queries, C(1));
      if (threadIdx.x < F::block_n) {
        const index_t row = i0 + threadIdx.x;
        row_lse[threadIdx.x] = row < queries ? lse[pair * queries + row] : C(0);
        row_delta[threadIdx.x] = row < queries ? delta[pair * queries + row] : C(0);
      }
      __syncthreads();
      typename F::scores s, d;
      F::multiply_rows(s, ks, qs);
      F::multiply_rows(d, vs, dys);
#pragma unroll
      for (int j = 0; j < F::columns; ++j) {
        const int at = F::tx() + 8 * j;
        const index_t query = i0 + at;
        const C lse_of_query = row_lse[at], delta_of_query = row_delta[at];
#pragma unroll
        for (int r = 0; r < F::rows; ++r) {
          const index_t key = k0 + F::ty() * F::rows + r;
          const bool seen = query < queries && is.sees(query, key, keys);
          s[r][j] = seen ? math::exp(is.score(s[r][j], query, key) - lse_of_query) : C(0);
          d[r][j] = s[r][j] * (is.kept(d[r][j], query, key) - delta_of_query);
          s[r][j] = is.kept(s[r][j], query, key);
        }
      }
      F::store_scores(weights, s);
      F::add_product(sum_v, weights, dys);
      F::store_scores(weights, d);
      F::add_product(sum_k, weights, qs);
    }
  }
  if (dk.data != nullptr)
    F::store_rows(F::head(dk, kv_heads, kv_pair), dk.time, k0, keys, dk.accumulate, sum_k,
                  [&](int) { return is.scale(); });
  if (dv.data != nullptr)
    F::store_rows(F::head(dv, kv_heads, kv_pair), dv.time, k0, keys, dv.accumulate, sum_v, [](int) { return C(1); });
}

}  // namespace gradus::cuda_kit
