#pragma once
// FlashAttention-2 on tensor cores, for 16-bit types and head widths that are multiples of 8, up to 128.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/mma.hpp"
#include "../../cuda/runs.hpp"
#include "attention.hpp"

namespace gradus::cuda_kit {

/// The algorithm of cuda_flash.hpp on tensor cores. A block has four warps, each with 16 rows of its tile; streamed
/// tiles are double-buffered: one stage loads while the other is computed. Weights are rounded to T for the products.
template <class T, index_t Depth, bool Causal>
struct tensor_attention {
  static constexpr int threads = 128;
  static constexpr int block_m = 64;
  static constexpr bool causal = Causal;
  static constexpr int depth = static_cast<int>(Depth);
  static constexpr int width = (depth + 15) / 16 * 16;
  static constexpr int block_n = width > 64 ? 32 : 64;
  static constexpr int score_tiles = block_n / 8;  ///< n8 tiles of scores
  static constexpr float scale = static_cast<float>(gradus::detail::inverse_square_root(Depth));
  static constexpr float log2_e = 1.44269504088896341f;
  using tile = shared_tile<T, width>;
  static constexpr std::size_t forward_bytes = tile::bytes(block_m + 4 * block_n);
  static constexpr std::size_t dq_bytes = tile::bytes(2 * block_m + 4 * block_n);
  static constexpr std::size_t dkv_bytes = tile::bytes(2 * block_m + 4 * block_n) + 4 * block_n * sizeof(float);
  static_assert(block_m == 16 * (threads / 32), "a warp owns 16 rows, the rows of a fragment");
  static_assert(block_n % 16 == 0 && width % 16 == 0, "fragments have 16 columns");
  static_assert(block_n <= threads, "one thread loads each row's lse and delta");
  static_assert(width <= 128, "a warp holds its rows in registers");
  using scores = accumulator[score_tiles];
  using sums = accumulator[width / 8];

  static constexpr index_t row_blocks_of(index_t n) { return (n + block_m - 1) / block_m; }
  static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Row and column, among a warp's rows, of element i of accumulator n.
  static __device__ int row_of(int i) { return lane() / 4 + i / 2 * 8; }
  static __device__ int column_of(int n, int i) { return n * 8 + lane() % 4 * 2 + i % 2; }
  static __device__ index_t keys_end(index_t q0, index_t keys) {
    return Causal && q0 + block_m < keys ? q0 + block_m : keys;
  }
  static __device__ bool sees(index_t query, index_t key, index_t keys) {
    return key < keys && (!Causal || key <= query);
  }
  template <class U>
  static __device__ U* head(const attention_operand<U>& x, index_t heads, index_t pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// Starts copies of Rows rows of a head into a tile, from row `first` on; rows from `end` on become zero.
  template <int Rows>
  static __device__ void load_tile(const tile& to, const attention_operand<const T>& x, index_t heads, index_t pair,
                                   index_t first, index_t end) {
    to.template load_async<Rows, depth, threads>(head(x, heads, pair), x.time, first, end);
  }
  /// Reduces x over the four threads that share a row.
  template <class F>
  static __device__ float reduce_row(float x, const F& f) {
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
  }
};

/// Double-buffered main loop: compute(first row, stage) for each tile, while load(first row, stage) fills the other.
template <int Step, class Load, class Compute>
__device__ inline void pipelined(index_t begin, index_t end, const Load& load, const Compute& compute) {
  load(begin, 0);
  cp_async_fence();
  int stage = 0;
  for (index_t at = begin; at < end; at += Step, stage ^= 1) {
    if (at + Step < end) load(at + Step, stage ^ 1);
    cp_async_fence();
    cp_async_wait<1>();
    __syncthreads();
    compute(at, stage);
    __syncthreads();
  }
}

template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_kernel(index_t pairs, index_t heads, attention_operand<T> out, float* lse,
                            attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                            index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)};
  const auto ks = [&](int stage) { return tile{qs.data + (F::block_m + stage * F::block_n) * tile::row_stride}; };
  const auto vs = [&](int stage) { return tile{qs.data + (F::block_m + (2 + stage) * F::block_n) * tile::row_stride}; };
  const index_t pair = blockIdx.x % pairs;
  const index_t q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::block_m;  // longest first
  F::template load_tile<F::block_m>(qs, q, heads, pair, q0, queries);
  typename F::sums sum{};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0, 0};
  const int row = F::warp_row();
  pipelined<F::block_n>(
      0, F::keys_end(q0, keys),
      [&](index_t j0, int stage) {
        F::template load_tile<F::block_n>(ks(stage), k, heads, pair, j0, keys);
        F::template load_tile<F::block_n>(vs(stage), v, heads, pair, j0, keys);
      },
      [&](index_t j0, int stage) {
        typename F::scores s;
        multiply_rows(s, qs, row, ks(stage));
        const bool unmasked = j0 + F::block_n <= keys && (!F::causal || j0 + F::block_n <= q0 + row + 1);
        float new_max[2] = {row_max[0], row_max[1]};
#pragma unroll
        for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& x = s[n].r[i];
            x *= F::scale * F::log2_e;
            if (!unmasked && !F::sees(q0 + row + F::row_of(i), j0 + F::column_of(n, i), keys)) x = -INFINITY;
            new_max[i / 2] = fmaxf(new_max[i / 2], x);
          }
        float rescale[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          new_max[h] = F::reduce_row(new_max[h], [](float a, float b) { return fmaxf(a, b); });
          rescale[h] = exp2f(row_max[h] - new_max[h]);
          row_max[h] = new_max[h];
          row_sum[h] *= rescale[h];
        }
#pragma unroll
        for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) row_sum[i / 2] += s[n].r[i] = exp2f(s[n].r[i] - new_max[i / 2]);
#pragma unroll
        for (int n = 0; n < F::width / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[n].r[i] *= rescale[i / 2];
        add_product(sum, s, vs(stage));
      });
#pragma unroll
  for (int h = 0; h < 2; ++h) row_sum[h] = F::reduce_row(row_sum[h], [](float a, float b) { return a + b; });
  qs.store_fragment(row, sum, 1 / row_sum[0], 1 / row_sum[1]);  // overwrites queries that only this warp reads
  qs.template store_to_global<depth>(row, F::head(out, heads, pair), out.time, q0 + row, queries, false);
  if (lse == nullptr || F::lane() % 4 != 0) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (const index_t at = q0 + row + F::row_of(2 * h); at < queries)
      lse[pair * queries + at] = row_max[h] / F::log2_e + math::log(row_sum[h]);
}

/// dq of a tile of queries: streams the keys.
template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_dq_kernel(index_t pairs, index_t heads, attention_operand<T> dq, attention_operand<const T> dy,
                               attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                               const float* lse, const float* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)}, dys{qs.data + F::block_m * tile::row_stride};
  const auto ks = [&](int stage) { return tile{qs.data + (2 * F::block_m + stage * F::block_n) * tile::row_stride}; };
  const auto vs = [&](int stage) {
    return tile{qs.data + (2 * F::block_m + (2 + stage) * F::block_n) * tile::row_stride};
  };
  const index_t pair = blockIdx.x % pairs;
  const index_t q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::block_m;
  F::template load_tile<F::block_m>(qs, q, heads, pair, q0, queries);
  F::template load_tile<F::block_m>(dys, dy, heads, pair, q0, queries);
  const int row = F::warp_row();
  float row_lse[2], row_delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const index_t at = q0 + row + F::row_of(2 * h);
    row_lse[h] = at < queries ? lse[pair * queries + at] * F::log2_e : 0.0f;
    row_delta[h] = at < queries ? delta[pair * queries + at] : 0.0f;
  }
  typename F::sums sum{};
  pipelined<F::block_n>(
      0, F::keys_end(q0, keys),
      [&](index_t j0, int stage) {
        F::template load_tile<F::block_n>(ks(stage), k, heads, pair, j0, keys);
        F::template load_tile<F::block_n>(vs(stage), v, heads, pair, j0, keys);
      },
      [&](index_t j0, int stage) {
        typename F::scores s, d;
        multiply_rows(s, qs, row, ks(stage));
        multiply_rows(d, dys, row, vs(stage));
        const bool unmasked = j0 + F::block_n <= keys && (!F::causal || j0 + F::block_n <= q0 + row + 1);
#pragma unroll
        for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float weight = exp2f(s[n].r[i] * (F::scale * F::log2_e) - row_lse[i / 2]);
            const bool seen = unmasked || F::sees(q0 + row + F::row_of(i), j0 + F::column_of(n, i), keys);
            s[n].r[i] = seen ? weight * (d[n].r[i] - row_delta[i / 2]) : 0.0f;
          }
        add_product(sum, s, ks(stage));
      });
  qs.store_fragment(row, sum, F::scale, F::scale);
  qs.template store_to_global<depth>(row, F::head(dq, heads, pair), dq.time, q0 + row, queries, dq.accumulate);
}

/// dk and dv of a tile of keys: streams the queries. Either may be null.
template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_dkv_kernel(index_t pairs, index_t heads, attention_operand<T> dk, attention_operand<T> dv,
                                attention_operand<const T> dy, attention_operand<const T> q,
                                attention_operand<const T> k, attention_operand<const T> v, const float* lse,
                                const float* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile ks{reinterpret_cast<T*>(memory)}, vs{ks.data + F::block_m * tile::row_stride};
  const auto qs = [&](int stage) { return tile{ks.data + (2 * F::block_m + stage * F::block_n) * tile::row_stride}; };
  const auto dys = [&](int stage) {
    return tile{ks.data + (2 * F::block_m + (2 + stage) * F::block_n) * tile::row_stride};
  };
  auto* const lses = reinterpret_cast<float*>(ks.data + (2 * F::block_m + 4 * F::block_n) * tile::row_stride);
  float* const deltas = lses + 2 * F::block_n;
  const index_t pair = blockIdx.x % pairs, k0 = blockIdx.x / pairs * F::block_m;
  F::template load_tile<F::block_m>(ks, k, heads, pair, k0, keys);
  F::template load_tile<F::block_m>(vs, v, heads, pair, k0, keys);
  const int row = F::warp_row();
  typename F::sums sum_k{}, sum_v{};
  pipelined<F::block_n>(
      F::causal ? k0 : 0, queries,
      [&](index_t i0, int stage) {
        F::template load_tile<F::block_n>(qs(stage), q, heads, pair, i0, queries);
        F::template load_tile<F::block_n>(dys(stage), dy, heads, pair, i0, queries);
        if (threadIdx.x < F::block_n) {
          const bool valid = i0 + threadIdx.x < queries;
          const index_t at = valid ? pair * queries + i0 + threadIdx.x : 0;
          cp_async_4_bytes(lses + stage * F::block_n + threadIdx.x, lse + at, valid);
          cp_async_4_bytes(deltas + stage * F::block_n + threadIdx.x, delta + at, valid);
        }
      },
      [&](index_t i0, int stage) {
        typename F::scores s, d;
        multiply_rows(s, ks, row, qs(stage));
        multiply_rows(d, vs, row, dys(stage));
        const bool unmasked =
            i0 + F::block_n <= queries && k0 + F::block_m <= keys && (!F::causal || k0 + row + 15 <= i0);
        const float* const row_lse = lses + stage * F::block_n;
        const float* const row_delta = deltas + stage * F::block_n;
#pragma unroll
        for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = F::column_of(n, i);
            const index_t query = i0 + at;
            const bool seen = unmasked || (query < queries && F::sees(query, k0 + row + F::row_of(i), keys));
            const float weight = exp2f((s[n].r[i] * F::scale - row_lse[at]) * F::log2_e);
            s[n].r[i] = seen ? weight : 0.0f;
            d[n].r[i] = seen ? weight * (d[n].r[i] - row_delta[at]) : 0.0f;
          }
        add_product(sum_v, s, dys(stage));
        add_product(sum_k, d, qs(stage));
      });
  if (dk.data != nullptr) {
    ks.store_fragment(row, sum_k, F::scale, F::scale);
    ks.template store_to_global<depth>(row, F::head(dk, heads, pair), dk.time, k0 + row, keys, dk.accumulate);
  }
  if (dv.data != nullptr) {
    vs.store_fragment(row, sum_v, 1.0f, 1.0f);
    vs.template store_to_global<depth>(row, F::head(dv, heads, pair), dv.time, k0 + row, keys, dv.accumulate);
  }
}

}  // namespace gradus::cuda_kit
