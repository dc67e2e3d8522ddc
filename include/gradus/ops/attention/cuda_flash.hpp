#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/runs.hpp"
#include "attention.hpp"

namespace gradus::cuda_kit {

/// Attention of one head in tiles that stay on the chip: scores are never stored (Dao, "FlashAttention-2", 2023).
///
/// A block has 128 threads and a tile of 64 rows; it goes through the other side 32 at a time. Thread (ty, tx) of 16 x
/// 8 has rows 4 ty .. 4 ty + 3, so that a row belongs to eight neighbours in a warp. Backward goes through everything
/// twice, once for dq and once for dk and dv: each result is summed by one block, in one order.
/// @tparam C what scores and sums are computed in
/// @tparam T what operands and results are stored in
template <class C, class T, index_t Depth, bool Causal>
struct flash_attention {
  static constexpr int threads = 128;
  static constexpr int rows = 64, others = 32;  ///< of the block's own tile, and of the tiles that it goes through
  static constexpr int each = 4;                ///< rows of a thread, and others
  static constexpr int width = (static_cast<int>(Depth) + 31) / 32 * 32;  ///< of a row in a tile; the padding is zero
  static constexpr int apart = width + 4;    ///< from row to row, so that eight of them lie in different banks
  static constexpr int groups = width / 32;  ///< runs of four columns that a thread has of a row
  static constexpr int scores_apart = others + 4;
  static_assert(rows == each * (threads / 8) && others == each * 8,
                "thread (ty, tx) of 16 x 8 has `each` rows and others");
  static_assert(threads % 32 == 0 && width % 32 == 0,
                "eight neighbours that have a row are in one warp, four columns each in turn");
  static_assert(apart % 4 == 0 && scores_apart % 4 == 0, "runs of four are aligned");
  static_assert(others <= threads, "a thread brings each statistic of a tile");
  static constexpr index_t row_blocks_of(index_t n) { return (n + rows - 1) / rows; }
  static constexpr C scale = static_cast<C>(gradus::detail::inverse_square_root(Depth));
  static constexpr std::size_t forward_bytes = sizeof(C) * (rows * apart + 2 * others * apart + rows * scores_apart);
  static constexpr std::size_t dq_bytes = sizeof(C) * (2 * rows * apart + 2 * others * apart + rows * scores_apart);
  static constexpr std::size_t dkv_bytes = dq_bytes + sizeof(C) * 2 * others;

  using four = vector_of<C, 4>;
  using scores = C[each][each];
  using sums = four[each][groups];

  static __device__ int ty() { return static_cast<int>(threadIdx.x) / 8; }
  static __device__ int tx() { return static_cast<int>(threadIdx.x) % 8; }

  template <class U>
  static __device__ U* head(const attention_operand<U>& x, index_t heads, index_t pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// Rows first .. of a head into a tile, times `factor`; zero from row `end` on.
  template <int Rows>
  static __device__ void gather(C* tile, const T* from, index_t time, index_t first, index_t end, C factor) {
    constexpr int run = Depth % vector_width<T> == 0 ? vector_width<T> : 1;
    constexpr int runs = width / run;
    for (int i = static_cast<int>(threadIdx.x); i < Rows * runs; i += threads) {
      const int r = i / runs, at = i % runs * run;
      vector_of<T, run> v{};
      if (at < static_cast<int>(Depth) && first + r < end) v = load<run, true>(from + (first + r) * time + at, run);
#pragma unroll
      for (int k = 0; k < run; ++k) tile[r * apart + at + k] = static_cast<C>(v.at[k]) * factor;
    }
  }
  /// The next tiles of keys and values of a head, for all threads, when all are done with the ones before.
  static __device__ void take_keys(C* ks, const attention_operand<const T>& k, C* vs,
                                   const attention_operand<const T>& v, index_t heads, index_t pair, index_t first,
                                   index_t end) {
    __syncthreads();
    gather<others>(ks, head(k, heads, pair), k.time, first, end, C(1));
    gather<others>(vs, head(v, heads, pair), v.time, first, end, C(1));
    __syncthreads();
  }
  /// sum = A B^T: rows of this thread of A with rows tx, tx + 8, .. of B.
  static __device__ void multiply_rows(scores& sum, const C* a, const C* b) {
#pragma unroll
    for (int r = 0; r < each; ++r)
#pragma unroll
      for (int j = 0; j < each; ++j) sum[r][j] = 0;
#pragma unroll 4
    for (int d = 0; d < width; d += 4) {
      four x[each], y[each];
#pragma unroll
      for (int r = 0; r < each; ++r) x[r] = load<4, true>(a + (ty() * each + r) * apart + d, 4);
#pragma unroll
      for (int j = 0; j < each; ++j) y[j] = load<4, true>(b + (tx() + 8 * j) * apart + d, 4);
#pragma unroll
      for (int r = 0; r < each; ++r)
#pragma unroll
        for (int j = 0; j < each; ++j)
#pragma unroll
          for (int k = 0; k < 4; ++k) sum[r][j] += x[r].at[k] * y[j].at[k];
    }
  }
  /// sum += W B: this thread's rows of the weights, which its warp has written, with all rows of B.
  static __device__ void add_product(sums& sum, const C* weights, const C* b) {
#pragma unroll 2
    for (int j = 0; j < others; j += 4) {
      four w[each];
#pragma unroll
      for (int r = 0; r < each; ++r) w[r] = load<4, true>(weights + (ty() * each + r) * scores_apart + j, 4);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          const four v = load<4, true>(b + (j + k) * apart + (tx() + 8 * g) * 4, 4);
#pragma unroll
          for (int r = 0; r < each; ++r)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[r][g].at[i] += w[r].at[k] * v.at[i];
        }
    }
  }
  static __device__ void keep_scores(C* to, const scores& s) {
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int r = 0; r < each; ++r)
#pragma unroll
      for (int j = 0; j < each; ++j) to[(ty() * each + r) * scores_apart + tx() + 8 * j] = s[r][j];
    __syncwarp();
  }
  /// This thread's sums, times factor(row), into rows first .. end - 1 of a head.
  template <class F>
  static __device__ void scatter(T* to, index_t time, index_t first, index_t end, bool accumulate, const sums& sum,
                                 const F& factor) {
#pragma unroll
    for (int r = 0; r < each; ++r) {
      const index_t row = first + ty() * each + r;
      if (row >= end) continue;
      const C by = factor(r);
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        const int column = (tx() + 8 * g) * 4;
        T* const at = to + row * time + column;
        const auto value = [&](int i) { return sum[r][g].at[i] * by; };
        if (Depth % 4 == 0 && column < static_cast<int>(Depth)) put<4, true>(at, accumulate, 4, value);
        else if (column < static_cast<int>(Depth))
          put<4, false>(at, accumulate, static_cast<int>(Depth) - column, value);
      }
    }
  }
  static __device__ bool sees(index_t query, index_t key, index_t keys) {
    return key < keys && (!Causal || key <= query);
  }
  static __device__ index_t keys_end(index_t q0, index_t keys) { return Causal && q0 + rows < keys ? q0 + rows : keys; }
  template <class F>
  static __device__ C over_row(C x, const F& f) {
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
  }
};

template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_forward_kernel(index_t pairs, index_t heads, attention_operand<T> out, C* lse,
                             attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                             index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const ks = qs + F::rows * F::apart;
  C* const vs = ks + F::others * F::apart;
  C* const weights = vs + F::others * F::apart;
  const index_t blocks = F::row_blocks_of(queries);
  const index_t pair = blockIdx.x % pairs, q0 = (blocks - 1 - blockIdx.x / pairs) * F::rows;  // the longest first
  F::template gather<F::rows>(qs, F::head(q, heads, pair), q.time, q0, queries, F::scale);
  typename F::sums sum{};
  C largest[F::each], total[F::each];
#pragma unroll
  for (int r = 0; r < F::each; ++r) largest[r] = -INFINITY, total[r] = 0;
  const index_t end = F::keys_end(q0, keys);
  for (index_t j0 = 0; j0 < end; j0 += F::others) {
    F::take_keys(ks, k, vs, v, heads, pair, j0, keys);
    typename F::scores s;
    F::multiply_rows(s, qs, ks);
#pragma unroll
    for (int r = 0; r < F::each; ++r) {
      C best = largest[r];
#pragma unroll
      for (int j = 0; j < F::each; ++j) {
        if (!F::sees(q0 + F::ty() * F::each + r, j0 + F::tx() + 8 * j, keys)) s[r][j] = -INFINITY;
        if (s[r][j] > best) best = s[r][j];
      }
      best = F::over_row(best, [](C a, C b) { return b > a ? b : a; });
      const C fade = math::exp(largest[r] - best);
      largest[r] = best;
      C mine = 0;
#pragma unroll
      for (int j = 0; j < F::each; ++j) mine += s[r][j] = math::exp(s[r][j] - best);
      total[r] = total[r] * fade + mine;
#pragma unroll
      for (int g = 0; g < F::groups; ++g)
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[r][g].at[i] *= fade;
    }
    F::keep_scores(weights, s);
    F::add_product(sum, weights, vs);
  }
#pragma unroll
  for (int r = 0; r < F::each; ++r) total[r] = F::over_row(total[r], [](C a, C b) { return a + b; });
  F::scatter(F::head(out, heads, pair), out.time, q0, queries, false, sum, [&](int r) { return C(1) / total[r]; });
  if (lse == nullptr || F::tx() != 0) return;
#pragma unroll
  for (int r = 0; r < F::each; ++r)
    if (const index_t row = q0 + F::ty() * F::each + r; row < queries)
      lse[pair * queries + row] = largest[r] + math::log(total[r]);
}

/// delta = dy . y of each row, which is the sum over the keys of a weight times its gradient.
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

/// dq of a tile of queries, which goes through the keys.
template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_dq_kernel(index_t pairs, index_t heads, attention_operand<T> dq, attention_operand<const T> dy,
                        attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                        const C* lse, const C* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const dys = qs + F::rows * F::apart;
  C* const ks = dys + F::rows * F::apart;
  C* const vs = ks + F::others * F::apart;
  C* const dscores = vs + F::others * F::apart;
  const index_t blocks = F::row_blocks_of(queries);
  const index_t pair = blockIdx.x % pairs, q0 = (blocks - 1 - blockIdx.x / pairs) * F::rows;
  F::template gather<F::rows>(qs, F::head(q, heads, pair), q.time, q0, queries, F::scale);
  F::template gather<F::rows>(dys, F::head(dy, heads, pair), dy.time, q0, queries, C(1));
  C norm[F::each], mean[F::each];
#pragma unroll
  for (int r = 0; r < F::each; ++r) {
    const index_t row = q0 + F::ty() * F::each + r;
    norm[r] = row < queries ? lse[pair * queries + row] : C(0);
    mean[r] = row < queries ? delta[pair * queries + row] : C(0);
  }
  typename F::sums sum{};
  const index_t end = F::keys_end(q0, keys);
  for (index_t j0 = 0; j0 < end; j0 += F::others) {
    F::take_keys(ks, k, vs, v, heads, pair, j0, keys);
    typename F::scores s, d;
    F::multiply_rows(s, qs, ks);
    F::multiply_rows(d, dys, vs);
#pragma unroll
    for (int r = 0; r < F::each; ++r)
#pragma unroll
      for (int j = 0; j < F::each; ++j) {
        const bool seen = F::sees(q0 + F::ty() * F::each + r, j0 + F::tx() + 8 * j, keys);
        s[r][j] = seen ? math::exp(s[r][j] - norm[r]) * (d[r][j] - mean[r]) : C(0);
      }
    F::keep_scores(dscores, s);
    F::add_product(sum, dscores, ks);
  }
  F::scatter(F::head(dq, heads, pair), dq.time, q0, queries, dq.accumulate, sum, [](int) { return F::scale; });
}

/// dk and dv of a tile of keys, which goes through the queries. Either may be null.
template <class F, bool Causal, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_dkv_kernel(index_t pairs, index_t heads, attention_operand<T> dk, attention_operand<T> dv,
                         attention_operand<const T> dy, attention_operand<const T> q, attention_operand<const T> k,
                         attention_operand<const T> v, const C* lse, const C* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const ks = reinterpret_cast<C*>(memory);
  C* const vs = ks + F::rows * F::apart;
  C* const qs = vs + F::rows * F::apart;
  C* const dys = qs + F::others * F::apart;
  C* const weights = dys + F::others * F::apart;
  C* const norm = weights + F::rows * F::scores_apart;
  C* const mean = norm + F::others;
  const index_t pair = blockIdx.x % pairs, k0 = blockIdx.x / pairs * F::rows;
  F::template gather<F::rows>(ks, F::head(k, heads, pair), k.time, k0, keys, F::scale);
  F::template gather<F::rows>(vs, F::head(v, heads, pair), v.time, k0, keys, C(1));
  typename F::sums sum_k{}, sum_v{};
  for (index_t i0 = Causal ? k0 : 0; i0 < queries; i0 += F::others) {
    __syncthreads();
    F::template gather<F::others>(qs, F::head(q, heads, pair), q.time, i0, queries, C(1));
    F::template gather<F::others>(dys, F::head(dy, heads, pair), dy.time, i0, queries, C(1));
    if (threadIdx.x < F::others) {
      const index_t row = i0 + threadIdx.x;
      norm[threadIdx.x] = row < queries ? lse[pair * queries + row] : C(0);
      mean[threadIdx.x] = row < queries ? delta[pair * queries + row] : C(0);
    }
    __syncthreads();
    typename F::scores s, d;
    F::multiply_rows(s, ks, qs);
    F::multiply_rows(d, vs, dys);
#pragma unroll
    for (int j = 0; j < F::each; ++j) {
      const int at = F::tx() + 8 * j;
      const index_t query = i0 + at;
      const C shift = norm[at], middle = mean[at];
#pragma unroll
      for (int r = 0; r < F::each; ++r) {
        const bool seen = query < queries && F::sees(query, k0 + F::ty() * F::each + r, keys);
        s[r][j] = seen ? math::exp(s[r][j] - shift) : C(0);
        d[r][j] = s[r][j] * (d[r][j] - middle);
      }
    }
    F::keep_scores(weights, s);
    F::add_product(sum_v, weights, dys);
    F::keep_scores(weights, d);
    F::add_product(sum_k, weights, qs);
  }
  if (dk.data != nullptr)
    F::scatter(F::head(dk, heads, pair), dk.time, k0, keys, dk.accumulate, sum_k, [](int) { return F::scale; });
  if (dv.data != nullptr)
    F::scatter(F::head(dv, heads, pair), dv.time, k0, keys, dv.accumulate, sum_v, [](int) { return C(1); });
}

}  // namespace gradus::cuda_kit
