#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../cuda/mma.hpp"
#include "../../cuda/runs.hpp"
#include "attention.hpp"

namespace gradus::cuda_kit {

/// Attention as in cuda_flash.hpp, on tensor cores, for heads of whole runs of 16-bit numbers. A block has four warps
/// with 16 rows of its tile each; the other side's tiles are there twice, so that one is copied while the other is
/// worked on. Weights are rounded to T for the products.
template <class T, index_t Depth, bool Causal>
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
  static_assert(rows == 16 * (threads / 32), "a warp has 16 rows, the rows of a fragment");
  static_assert(others % 16 == 0 && width % 16 == 0, "products go 16 columns at a time");
  static_assert(others <= threads, "a thread brings each statistic of a tile");
  static_assert(width <= 128, "a row is in a warp's registers");
  using scores = fragment_c[strips];
  using sums = fragment_c[width / 8];

  static constexpr index_t row_blocks_of(index_t n) { return (n + rows - 1) / rows; }
  static __device__ int strip_row() { return static_cast<int>(threadIdx.x) / 32 * 16; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Row and column, in a warp's strip, of element i of strip n of the results.
  static __device__ int row_of(int i) { return lane() / 4 + i / 2 * 8; }
  static __device__ int column_of(int n, int i) { return n * 8 + lane() % 4 * 2 + i % 2; }
  static __device__ index_t keys_end(index_t q0, index_t keys) { return Causal && q0 + rows < keys ? q0 + rows : keys; }
  static __device__ bool sees(index_t query, index_t key, index_t keys) {
    return key < keys && (!Causal || key <= query);
  }
  template <class U>
  static __device__ U* head(const attention_operand<U>& x, index_t heads, index_t pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// Starts copies of Rows rows of a head into a tile, from row `first` on; zeros from row `end` on.
  template <int Rows>
  static __device__ void gather(const tile& to, const attention_operand<const T>& x, index_t heads, index_t pair,
                                index_t first, index_t end) {
    to.template gather<Rows, depth, threads>(head(x, heads, pair), x.time, first, end);
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
__device__ inline void in_turn(index_t begin, index_t end, const Gather& gather, const Work& work) {
  gather(begin, 0);
  end_copies();
  int place = 0;
  for (index_t at = begin; at < end; at += Step, place ^= 1) {
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
    tensor_attention_kernel(index_t pairs, index_t heads, attention_operand<T> out, float* lse,
                            attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                            index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)};
  const auto ks = [&](int place) { return tile{qs.data + (F::rows + place * F::others) * tile::apart}; };
  const auto vs = [&](int place) { return tile{qs.data + (F::rows + (2 + place) * F::others) * tile::apart}; };
  const index_t pair = blockIdx.x % pairs;
  const index_t q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::rows;  // the longest first
  F::template gather<F::rows>(qs, q, heads, pair, q0, queries);
  typename F::sums sum{};
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
  const int row = F::strip_row();
  in_turn<F::others>(
      0, F::keys_end(q0, keys),
      [&](index_t j0, int place) {
        F::template gather<F::others>(ks(place), k, heads, pair, j0, keys);
        F::template gather<F::others>(vs(place), v, heads, pair, j0, keys);
      },
      [&](index_t j0, int place) {
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
    if (const index_t at = q0 + row + F::row_of(2 * h); at < queries)
      lse[pair * queries + at] = largest[h] / F::log2_e + math::log(total[h]);
}

/// dq of a tile of queries, which goes through the keys.
template <class F, class T>
__global__ void __launch_bounds__(F::threads)
    tensor_attention_dq_kernel(index_t pairs, index_t heads, attention_operand<T> dq, attention_operand<const T> dy,
                               attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                               const float* lse, const float* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile qs{reinterpret_cast<T*>(memory)}, dys{qs.data + F::rows * tile::apart};
  const auto ks = [&](int place) { return tile{qs.data + (2 * F::rows + place * F::others) * tile::apart}; };
  const auto vs = [&](int place) { return tile{qs.data + (2 * F::rows + (2 + place) * F::others) * tile::apart}; };
  const index_t pair = blockIdx.x % pairs;
  const index_t q0 = (F::row_blocks_of(queries) - 1 - blockIdx.x / pairs) * F::rows;
  F::template gather<F::rows>(qs, q, heads, pair, q0, queries);
  F::template gather<F::rows>(dys, dy, heads, pair, q0, queries);
  const int row = F::strip_row();
  float norm[2], mean[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const index_t at = q0 + row + F::row_of(2 * h);
    norm[h] = at < queries ? lse[pair * queries + at] * F::log2_e : 0.0f;
    mean[h] = at < queries ? delta[pair * queries + at] : 0.0f;
  }
  typename F::sums sum{};
  in_turn<F::others>(
      0, F::keys_end(q0, keys),
      [&](index_t j0, int place) {
        F::template gather<F::others>(ks(place), k, heads, pair, j0, keys);
        F::template gather<F::others>(vs(place), v, heads, pair, j0, keys);
      },
      [&](index_t j0, int place) {
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
    tensor_attention_dkv_kernel(index_t pairs, index_t heads, attention_operand<T> dk, attention_operand<T> dv,
                                attention_operand<const T> dy, attention_operand<const T> q,
                                attention_operand<const T> k, attention_operand<const T> v, const float* lse,
                                const float* delta, index_t queries, index_t keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  constexpr int depth = F::depth;
  const tile ks{reinterpret_cast<T*>(memory)}, vs{ks.data + F::rows * tile::apart};
  const auto qs = [&](int place) { return tile{ks.data + (2 * F::rows + place * F::others) * tile::apart}; };
  const auto dys = [&](int place) { return tile{ks.data + (2 * F::rows + (2 + place) * F::others) * tile::apart}; };
  auto* const norms = reinterpret_cast<float*>(ks.data + (2 * F::rows + 4 * F::others) * tile::apart);
  float* const means = norms + 2 * F::others;
  const index_t pair = blockIdx.x % pairs, k0 = blockIdx.x / pairs * F::rows;
  F::template gather<F::rows>(ks, k, heads, pair, k0, keys);
  F::template gather<F::rows>(vs, v, heads, pair, k0, keys);
  const int row = F::strip_row();
  typename F::sums sum_k{}, sum_v{};
  in_turn<F::others>(
      F::causal ? k0 : 0, queries,
      [&](index_t i0, int place) {
        F::template gather<F::others>(qs(place), q, heads, pair, i0, queries);
        F::template gather<F::others>(dys(place), dy, heads, pair, i0, queries);
        if (threadIdx.x < F::others) {
          const bool there = i0 + threadIdx.x < queries;
          const index_t at = there ? pair * queries + i0 + threadIdx.x : 0;
          copy_4_bytes(norms + place * F::others + threadIdx.x, lse + at, there);
          copy_4_bytes(means + place * F::others + threadIdx.x, delta + at, there);
        }
      },
      [&](index_t i0, int place) {
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
            const index_t query = i0 + at;
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

}  // namespace gradus::cuda_kit
