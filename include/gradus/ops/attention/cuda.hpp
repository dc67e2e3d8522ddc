#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/mma.hpp"
#include "../../cuda/runs.hpp"
#include "../../cuda/workspace.hpp"
#include "../elementwise/cuda.hpp"
#include "../matmul/cuda.hpp"
#include "../permute/cuda.hpp"
#include "../slice/cuda.hpp"
#include "../softmax/cuda.hpp"
#include "attention.hpp"

namespace gradus {

namespace cuda_kit {

/// Attention of one head in tiles that stay on the chip: scores are never stored (Dao, "FlashAttention-2", 2023).
///
/// A block has 128 threads and a tile of 64 rows; it goes through the other side 32 at a time. Thread (ty, tx) of 16 x 8 has rows 4 ty ..
/// 4 ty + 3, so that a row belongs to eight neighbours in a warp. Backward goes through everything twice, once for dq and once for dk
/// and dv: each result is summed by one block, in one order.
/// @tparam C what scores and sums are computed in
/// @tparam T what operands and results are stored in
template <class C, class T, index Depth, index Queries, index Keys, bool Causal>
struct flash_attention {
  static constexpr int threads = 128;
  static constexpr int rows = 64, others = 32;  ///< of the block's own tile, and of the tiles that it goes through
  static constexpr int each = 4;                ///< rows of a thread, and others
  static constexpr int width = (static_cast<int>(Depth) + 31) / 32 * 32;  ///< of a row in a tile; the padding is zero
  static constexpr int apart = width + 4;    ///< from row to row, so that eight of them lie in different banks
  static constexpr int groups = width / 32;  ///< runs of four columns that a thread has of a row
  static constexpr int scores_apart = others + 4;
  static constexpr index row_blocks_of(index n) { return (n + rows - 1) / rows; }
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
  static __device__ U* head(const attention_operand<U>& x, index heads, index pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// Rows first .. of a head into a tile, times `factor`; zero from row `end` on.
  template <int Rows>
  static __device__ void gather(C* tile, const T* from, index time, index first, index end, C factor) {
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
  static __device__ void scatter(T* to, index time, index first, index end, bool accumulate, const sums& sum,
                                 const F& factor) {
#pragma unroll
    for (int r = 0; r < each; ++r) {
      const index row = first + ty() * each + r;
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
  static __device__ bool sees(index query, index key) { return key < Keys && (!Causal || key <= query); }
  static __device__ index keys_end(index q0) { return Causal && q0 + rows < Keys ? q0 + rows : Keys; }
  template <class F>
  static __device__ C over_row(C x, const F& f) {
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
  }
};

template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_forward_kernel(index pairs, index heads, attention_operand<T> out, C* lse, attention_operand<const T> q,
                             attention_operand<const T> k, attention_operand<const T> v, index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const ks = qs + F::rows * F::apart;
  C* const vs = ks + F::others * F::apart;
  C* const weights = vs + F::others * F::apart;
  const index blocks = F::row_blocks_of(queries);
  const index pair = blockIdx.x % pairs, q0 = (blocks - 1 - blockIdx.x / pairs) * F::rows;  // the longest first
  F::template gather<F::rows>(qs, F::head(q, heads, pair), q.time, q0, queries, F::scale);
  typename F::sums sum{};
  C largest[F::each], total[F::each];
#pragma unroll
  for (int r = 0; r < F::each; ++r) largest[r] = -INFINITY, total[r] = 0;
  const index end = F::keys_end(q0);
  for (index j0 = 0; j0 < end; j0 += F::others) {
    __syncthreads();
    F::template gather<F::others>(ks, F::head(k, heads, pair), k.time, j0, keys, C(1));
    F::template gather<F::others>(vs, F::head(v, heads, pair), v.time, j0, keys, C(1));
    __syncthreads();
    typename F::scores s;
    F::multiply_rows(s, qs, ks);
#pragma unroll
    for (int r = 0; r < F::each; ++r) {
      C best = largest[r];
#pragma unroll
      for (int j = 0; j < F::each; ++j) {
        if (!F::sees(q0 + F::ty() * F::each + r, j0 + F::tx() + 8 * j)) s[r][j] = -INFINITY;
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
    if (const index row = q0 + F::ty() * F::each + r; row < queries)
      lse[pair * queries + row] = largest[r] + math::log(total[r]);
}

/// delta = dy . y of each row, which is the sum over the keys of a weight times its gradient.
template <class C, class T, index Depth>
struct delta_rows {
  static constexpr int run = Depth % vector_width<T> == 0 ? vector_width<T> : 1;
  static constexpr int runs = static_cast<int>(Depth) / run;
  static constexpr int lanes = static_cast<int>(std::min<index>(32, std::bit_ceil(static_cast<index>(runs))));
};
template <class C, class T, index Depth>
__global__ void __launch_bounds__(block_threads)
    attention_delta_kernel(C* delta, index pairs, index heads, index queries, attention_operand<const T> dy,
                           attention_operand<const T> y) {
  using how = delta_rows<C, T, Depth>;
  const index row = (static_cast<index>(blockIdx.x) * block_threads + threadIdx.x) / how::lanes;
  const int lane = static_cast<int>(threadIdx.x) % how::lanes;
  C sum = 0;
  if (row < pairs * queries) {
    const index pair = row / queries, time = row % queries;
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
    attention_dq_kernel(index pairs, index heads, attention_operand<T> dq, attention_operand<const T> dy,
                        attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                        const C* lse, const C* delta, index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const dys = qs + F::rows * F::apart;
  C* const ks = dys + F::rows * F::apart;
  C* const vs = ks + F::others * F::apart;
  C* const dscores = vs + F::others * F::apart;
  const index blocks = F::row_blocks_of(queries);
  const index pair = blockIdx.x % pairs, q0 = (blocks - 1 - blockIdx.x / pairs) * F::rows;
  F::template gather<F::rows>(qs, F::head(q, heads, pair), q.time, q0, queries, F::scale);
  F::template gather<F::rows>(dys, F::head(dy, heads, pair), dy.time, q0, queries, C(1));
  C norm[F::each], mean[F::each];
#pragma unroll
  for (int r = 0; r < F::each; ++r) {
    const index row = q0 + F::ty() * F::each + r;
    norm[r] = row < queries ? lse[pair * queries + row] : C(0);
    mean[r] = row < queries ? delta[pair * queries + row] : C(0);
  }
  typename F::sums sum{};
  const index end = F::keys_end(q0);
  for (index j0 = 0; j0 < end; j0 += F::others) {
    __syncthreads();
    F::template gather<F::others>(ks, F::head(k, heads, pair), k.time, j0, keys, C(1));
    F::template gather<F::others>(vs, F::head(v, heads, pair), v.time, j0, keys, C(1));
    __syncthreads();
    typename F::scores s, d;
    F::multiply_rows(s, qs, ks);
    F::multiply_rows(d, dys, vs);
#pragma unroll
    for (int r = 0; r < F::each; ++r)
#pragma unroll
      for (int j = 0; j < F::each; ++j) {
        const bool seen = F::sees(q0 + F::ty() * F::each + r, j0 + F::tx() + 8 * j);
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
    attention_dkv_kernel(index pairs, index heads, attention_operand<T> dk, attention_operand<T> dv,
                         attention_operand<const T> dy, attention_operand<const T> q, attention_operand<const T> k,
                         attention_operand<const T> v, const C* lse, const C* delta, index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const ks = reinterpret_cast<C*>(memory);
  C* const vs = ks + F::rows * F::apart;
  C* const qs = vs + F::rows * F::apart;
  C* const dys = qs + F::others * F::apart;
  C* const weights = dys + F::others * F::apart;
  C* const norm = weights + F::rows * F::scores_apart;
  C* const mean = norm + F::others;
  const index pair = blockIdx.x % pairs, k0 = blockIdx.x / pairs * F::rows;
  F::template gather<F::rows>(ks, F::head(k, heads, pair), k.time, k0, keys, F::scale);
  F::template gather<F::rows>(vs, F::head(v, heads, pair), v.time, k0, keys, C(1));
  typename F::sums sum_k{}, sum_v{};
  for (index i0 = Causal ? k0 : 0; i0 < queries; i0 += F::others) {
    __syncthreads();
    F::template gather<F::others>(qs, F::head(q, heads, pair), q.time, i0, queries, C(1));
    F::template gather<F::others>(dys, F::head(dy, heads, pair), dy.time, i0, queries, C(1));
    if (threadIdx.x < F::others) {
      const index row = i0 + threadIdx.x;
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
      const index query = i0 + at;
      const C shift = norm[at], middle = mean[at];
#pragma unroll
      for (int r = 0; r < F::each; ++r) {
        const bool seen = query < queries && F::sees(query, k0 + F::ty() * F::each + r);
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

/// The same on tensor cores, for heads of whole runs of 16-bit numbers. A block has four warps with 16 rows of its tile each; the other
/// side's tiles are there twice, so that one is copied while the other is worked on. Weights are rounded to T for the products.
template <class T, index Depth, bool Causal>
struct tensor_attention {
  static constexpr int threads = 128;
  static constexpr int rows = 64;
  static constexpr bool causal = Causal;
  static constexpr int depth = static_cast<int>(Depth);
  static constexpr int width = (depth + 15) / 16 * 16;
  static constexpr int others = width > 64 ? 32 : 64;
  static constexpr int strips = others / 8;  ///< of 8 columns of scores
  static constexpr float scale = static_cast<float>(gradus::detail::inverse_square_root(Depth));
  static constexpr float log2_e = 1.44269504088896341f;
  using tile = shared_tile<T, width>;
  static constexpr std::size_t forward_bytes = tile::bytes(rows + 4 * others);
  static constexpr std::size_t dq_bytes = tile::bytes(2 * rows + 4 * others);
  static constexpr std::size_t dkv_bytes = tile::bytes(2 * rows + 4 * others) + 4 * others * sizeof(float);
  using scores = fragment_c[strips];
  using sums = fragment_c[width / 8];

  static constexpr index row_blocks_of(index n) { return (n + rows - 1) / rows; }
  static __device__ int strip_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Row and column, in a warp's strip, of element i of strip n of the results.
  static __device__ int row_of(int i) { return lane() / 4 + i / 2 * 8; }
  static __device__ int column_of(int n, int i) { return n * 8 + lane() % 4 * 2 + i % 2; }
  static __device__ index keys_end(index q0, index keys) { return Causal && q0 + rows < keys ? q0 + rows : keys; }
  static __device__ bool sees(index query, index key, index keys) { return key < keys && (!Causal || key <= query); }
  template <class U>
  static __device__ U* head(const attention_operand<U>& x, index heads, index pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// What f makes of the values of the four threads that have a row.
  template <class F>
  static __device__ float over_row(float x, const F& f) {
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
  }
};

/// Tiles of the other side in turn: work(first row, its place) with the next ones on their way.
template <int Step, class Gather, class Work>
__device__ inline void in_turn(index begin, index end, const Gather& gather, const Work& work) {
  gather(begin, 0);
  end_copies();
  int place = 0;
  for (index at = begin; at < end; at += Step, place ^= 1) {
    if (at + Step < end) gather(at + Step, place ^ 1);
    end_copies();
    wait_for_copies<1>();
    __syncthreads();
    work(at, place);
    __syncthreads();
  }
}

template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_kernel(index pairs, index heads, attention_operand<T> out, float* lse,
                            attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                            index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)};
  const auto ks = [&](int place) { return tile{qs.data + (F::rows + place * F::others) * tile::apart}; };
  const auto vs = [&](int place) { return tile{qs.data + (F::rows + (2 + place) * F::others) * tile::apart}; };
  const index pair = blockIdx.x % pairs;
  const index q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::rows;  // the longest first
  qs.template gather<F::rows, depth, F::threads>(F::head(q, heads, pair), q.time, q0, queries);
  typename F::sums sum{};
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const int row = F::strip_row();
  in_turn<F::others>(
      0, F::keys_end(q0, keys),
      [&](index j0, int place) {
        ks(place).template gather<F::others, depth, F::threads>(F::head(k, heads, pair), k.time, j0, keys);
        vs(place).template gather<F::others, depth, F::threads>(F::head(v, heads, pair), v.time, j0, keys);
      },
      [&](index j0, int place) {
        typename F::scores s;
        multiply_rows(s, qs, row, ks(place));
        const bool whole = j0 + F::others <= keys && (!F::causal || j0 + F::others <= q0 + row + 1);
        float best[2] = {largest[0], largest[1]};
#pragma unroll
        for (int n = 0; n < F::strips; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float& x = s[n].r[i];
            x *= F::scale * F::log2_e;
            if (!whole && !F::sees(q0 + row + F::row_of(i), j0 + F::column_of(n, i), keys)) x = -INFINITY;
            best[i / 2] = fmaxf(best[i / 2], x);
          }
        float fade[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          best[h] = F::over_row(best[h], [](float a, float b) { return fmaxf(a, b); });
          fade[h] = exp2f(largest[h] - best[h]);
          largest[h] = best[h];
          total[h] *= fade[h];
        }
#pragma unroll
        for (int n = 0; n < F::strips; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) total[i / 2] += s[n].r[i] = exp2f(s[n].r[i] - best[i / 2]);
#pragma unroll
        for (int n = 0; n < F::width / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[n].r[i] *= fade[i / 2];
        add_product(sum, s, vs(place));
      });
#pragma unroll
  for (int h = 0; h < 2; ++h) total[h] = F::over_row(total[h], [](float a, float b) { return a + b; });
  qs.keep(row, sum, 1 / total[0],
          1 / total[1]);  // a warp has read its own rows of the queries, and they are no one else's
  qs.template scatter<depth>(row, F::head(out, heads, pair), out.time, q0 + row, queries, false);
  if (lse == nullptr || F::lane() % 4 != 0) return;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (const index at = q0 + row + F::row_of(2 * h); at < queries)
      lse[pair * queries + at] = largest[h] / F::log2_e + math::log(total[h]);
}

/// dq of a tile of queries, which goes through the keys.
template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_dq_kernel(index pairs, index heads, attention_operand<T> dq, attention_operand<const T> dy,
                               attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                               const float* lse, const float* delta, index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)}, dys{qs.data + F::rows * tile::apart};
  const auto ks = [&](int place) { return tile{qs.data + (2 * F::rows + place * F::others) * tile::apart}; };
  const auto vs = [&](int place) { return tile{qs.data + (2 * F::rows + (2 + place) * F::others) * tile::apart}; };
  const index pair = blockIdx.x % pairs;
  const index q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::rows;
  qs.template gather<F::rows, depth, F::threads>(F::head(q, heads, pair), q.time, q0, queries);
  dys.template gather<F::rows, depth, F::threads>(F::head(dy, heads, pair), dy.time, q0, queries);
  const int row = F::strip_row();
  float norm[2], mean[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const index at = q0 + row + F::row_of(2 * h);
    norm[h] = at < queries ? lse[pair * queries + at] * F::log2_e : 0.0f;
    mean[h] = at < queries ? delta[pair * queries + at] : 0.0f;
  }
  typename F::sums sum{};
  in_turn<F::others>(
      0, F::keys_end(q0, keys),
      [&](index j0, int place) {
        ks(place).template gather<F::others, depth, F::threads>(F::head(k, heads, pair), k.time, j0, keys);
        vs(place).template gather<F::others, depth, F::threads>(F::head(v, heads, pair), v.time, j0, keys);
      },
      [&](index j0, int place) {
        typename F::scores s, d;
        multiply_rows(s, qs, row, ks(place));
        multiply_rows(d, dys, row, vs(place));
        const bool whole = j0 + F::others <= keys && (!F::causal || j0 + F::others <= q0 + row + 1);
#pragma unroll
        for (int n = 0; n < F::strips; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float weight = exp2f(s[n].r[i] * (F::scale * F::log2_e) - norm[i / 2]);
            const bool seen = whole || F::sees(q0 + row + F::row_of(i), j0 + F::column_of(n, i), keys);
            s[n].r[i] = seen ? weight * (d[n].r[i] - mean[i / 2]) : 0.0f;
          }
        add_product(sum, s, ks(place));
      });
  qs.keep(row, sum, F::scale, F::scale);
  qs.template scatter<depth>(row, F::head(dq, heads, pair), dq.time, q0 + row, queries, dq.accumulate);
}

/// dk and dv of a tile of keys, which goes through the queries. Either may be null.
template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_dkv_kernel(index pairs, index heads, attention_operand<T> dk, attention_operand<T> dv,
                                attention_operand<const T> dy, attention_operand<const T> q,
                                attention_operand<const T> k, attention_operand<const T> v, const float* lse,
                                const float* delta, index queries, index keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile ks{reinterpret_cast<T*>(memory)}, vs{ks.data + F::rows * tile::apart};
  const auto qs = [&](int place) { return tile{ks.data + (2 * F::rows + place * F::others) * tile::apart}; };
  const auto dys = [&](int place) { return tile{ks.data + (2 * F::rows + (2 + place) * F::others) * tile::apart}; };
  auto* const norms = reinterpret_cast<float*>(ks.data + (2 * F::rows + 4 * F::others) * tile::apart);
  float* const means = norms + 2 * F::others;
  const index pair = blockIdx.x % pairs, k0 = blockIdx.x / pairs * F::rows;
  ks.template gather<F::rows, depth, F::threads>(F::head(k, heads, pair), k.time, k0, keys);
  vs.template gather<F::rows, depth, F::threads>(F::head(v, heads, pair), v.time, k0, keys);
  const int row = F::strip_row();
  typename F::sums sum_k{}, sum_v{};
  in_turn<F::others>(
      F::causal ? k0 : 0, queries,
      [&](index i0, int place) {
        qs(place).template gather<F::others, depth, F::threads>(F::head(q, heads, pair), q.time, i0, queries);
        dys(place).template gather<F::others, depth, F::threads>(F::head(dy, heads, pair), dy.time, i0, queries);
        if (threadIdx.x < F::others) {
          const bool there = i0 + threadIdx.x < queries;
          const index at = there ? pair * queries + i0 + threadIdx.x : 0;
          copy_4_bytes(norms + place * F::others + threadIdx.x, lse + at, there);
          copy_4_bytes(means + place * F::others + threadIdx.x, delta + at, there);
        }
      },
      [&](index i0, int place) {
        typename F::scores s, d;
        multiply_rows(s, ks, row, qs(place));
        multiply_rows(d, vs, row, dys(place));
        const bool whole = i0 + F::others <= queries && k0 + F::rows <= keys && (!F::causal || k0 + row + 15 <= i0);
        const float* const norm = norms + place * F::others;
        const float* const mean = means + place * F::others;
#pragma unroll
        for (int n = 0; n < F::strips; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = F::column_of(n, i);
            const index query = i0 + at;
            const bool seen = whole || (query < queries && F::sees(query, k0 + row + F::row_of(i), keys));
            const float weight = exp2f((s[n].r[i] * F::scale - norm[at]) * F::log2_e);
            s[n].r[i] = seen ? weight : 0.0f;
            d[n].r[i] = seen ? weight * (d[n].r[i] - mean[at]) : 0.0f;
          }
        add_product(sum_v, s, dys(place));
        add_product(sum_k, d, qs(place));
      });
  if (dk.data != nullptr) {
    ks.keep(row, sum_k, F::scale, F::scale);
    ks.template scatter<depth>(row, F::head(dk, heads, pair), dk.time, k0 + row, keys, dk.accumulate);
  }
  if (dv.data != nullptr) {
    vs.keep(row, sum_v, 1.0f, 1.0f);
    vs.template scatter<depth>(row, F::head(dv, heads, pair), dv.time, k0 + row, keys, dv.accumulate);
  }
}

template <class C, class T, index Depth, index Queries, index Keys, bool Causal>
struct attention_launches {
  static constexpr bool on_tensor_cores = sizeof(T) == 2 && std::is_same_v<C, float> && Depth % 8 == 0 && Depth <= 128;
  using flash = std::conditional_t<on_tensor_cores, tensor_attention<T, on_tensor_cores ? Depth : 16, Causal>,
                                   flash_attention<C, T, Depth, Queries, Keys, Causal>>;

  static void forward(context<cuda>& ctx, index batch, index heads, attention_operand<T> out, C* lse,
                      attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
    const index pairs = batch * heads;
    const auto run = [&](auto kernel) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(Queries)), flash::threads,
                         flash::forward_bytes, pairs, heads, out, lse, q, k, v, Queries, Keys);
    };
    if constexpr (on_tensor_cores) run(&tensor_attention_kernel<flash, T>);
    else run(&attention_forward_kernel<flash, C, T>);
  }
  static void backward(context<cuda>& ctx, index batch, index heads, attention_operand<T> dq, attention_operand<T> dk,
                       attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                       attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                       const C* lse) {
    const index pairs = batch * heads;
    C* const delta = scratch<C>(ctx, pairs * Queries);
    launch(ctx, &attention_delta_kernel<C, T, Depth>, blocks_for(pairs * Queries * delta_rows<C, T, Depth>::lanes),
           block_threads, delta, pairs, heads, Queries, dy, y);
    const auto run_dq = [&](auto kernel) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(Queries)), flash::threads,
                         flash::dq_bytes, pairs, heads, dq, dy, q, k, v, lse, delta, Queries, Keys);
    };
    const auto run_dkv = [&](auto kernel) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(Keys)), flash::threads,
                         flash::dkv_bytes, pairs, heads, dk, dv, dy, q, k, v, lse, delta, Queries, Keys);
    };
    if constexpr (on_tensor_cores) {
      if (dq.data != nullptr) run_dq(&tensor_attention_dq_kernel<flash, T>);
      if (dk.data != nullptr || dv.data != nullptr) run_dkv(&tensor_attention_dkv_kernel<flash, T>);
    } else {
      if (dq.data != nullptr) run_dq(&attention_dq_kernel<flash, C, T>);
      if (dk.data != nullptr || dv.data != nullptr) run_dkv(&attention_dkv_kernel<flash, Causal, C, T>);
    }
  }
};

}  // namespace cuda_kit

template <index Heads>
struct kernel<op::causal_attention<Heads>, cuda> {
  template <class T, class Y, class C, class S, class X>
  static void forward(context<cuda>& ctx, view<T, Y, cuda> y, view<C, S, cuda> lse, view<const T, X, cuda> qkv) {
    using d = dims<X>;
    d::template launches<C, T>::forward(ctx, d::batch, Heads, d::output(y.data()), lse.data(), d::part(qkv.data(), 0),
                                        d::part(qkv.data(), 1), d::part(qkv.data(), 2));
  }
  template <class T, class X, class Y, class C, class S>
  static void backward(context<cuda>& ctx, view<T, X, cuda> dqkv, bool accumulate, view<const T, Y, cuda> dy,
                       view<const T, X, cuda> qkv, view<const T, Y, cuda> y, view<const C, S, cuda> lse) {
    using d = dims<X>;
    d::template launches<C, T>::backward(ctx, d::batch, Heads, d::part(dqkv.data(), 0, accumulate),
                                         d::part(dqkv.data(), 1, accumulate), d::part(dqkv.data(), 2, accumulate),
                                         d::output(dy.data()), d::part(qkv.data(), 0), d::part(qkv.data(), 1),
                                         d::part(qkv.data(), 2), d::output(y.data()), lse.data());
  }

 private:
  template <class X>
  struct dims {
    static constexpr index batch = X::extent(0);
    static constexpr index time = X::extent(1);
    static constexpr index width = X::extent(2) / 3;
    static constexpr index depth = width / Heads;
    template <class C, class T>
    using launches = cuda_kit::attention_launches<C, T, depth, time, time, true>;
    template <class T>
    static attention_operand<T> part(T* data, index which, bool accumulate = false) {
      return {data + which * width, time * 3 * width, depth, 3 * width, accumulate};
    }
    template <class T>
    static attention_operand<T> output(T* data) {
      return {data, time * width, depth, width, false};
    }
  };
};

template <bool Causal>
struct kernel<op::scaled_attention<Causal>, cuda> {
  template <class T, class Q, class C, class S, class K>
  static void forward(context<cuda>& ctx, view<T, Q, cuda> y, view<C, S, cuda> lse, view<const T, Q, cuda> q,
                      view<const T, K, cuda> k, view<const T, K, cuda> v) {
    launches<C, T, Q, K>::forward(ctx, Q::extent(0), Q::extent(1), at(y), lse.data(), at(q), at(k), at(v));
  }
  template <class T, class Q, class K, class C, class S>
  static void backward(context<cuda>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                       view<const T, Q, cuda> dy, view<const T, Q, cuda> q, view<const T, K, cuda> k,
                       view<const T, K, cuda> v, view<const T, Q, cuda> y, view<const C, S, cuda> lse) {
    launches<C, T, Q, K>::backward(ctx, Q::extent(0), Q::extent(1), dq, dk, dv, at(dy), at(q), at(k), at(v), at(y),
                                   lse.data());
  }

 private:
  template <class C, class T, class Q, class K>
  using launches = cuda_kit::attention_launches<C, T, Q::extent(3), Q::extent(2), K::extent(2), Causal>;
  template <class T, class S>
  static attention_operand<T> at(view<T, S, cuda> x) {
    return {x.data(), S::stride(0), S::stride(1), S::stride(2), false};
  }
};

}  // namespace gradus
