#pragma once
// FlashAttention-2 on tensor cores, for 16-bit types and head widths that are multiples of 8, up to 128: the tiles, and
// the forward kernel. Backward is in cuda_tensor_backward.hpp.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "../../core/math.hpp"
#include "../../gpu/coarse_number.hpp"
#include "../../gpu/mma.hpp"
#include "../../gpu/runs.hpp"
#include "attention.hpp"

namespace gradus::cuda_kit {

/// The algorithm of cuda_flash.hpp on tensor cores. Each of a block's warps has 16 * Strips rows of its tile; streamed
/// tiles are double-buffered: one stage loads while the other is computed. Weights are rounded to T for the products.
template <class T, index_t Depth, bool Causal, int Strips = 1, int Warps = 4>
struct tensor_attention {
  static constexpr int threads = 32 * Warps;
  static constexpr int strips = Strips;
  static constexpr int warp_rows = 16 * Strips;
  static constexpr int block_m = warp_rows * Warps;
  static constexpr bool causal = Causal;
  static constexpr int depth = static_cast<int>(Depth);
  static constexpr int width = (depth + 15) / 16 * 16;
  static constexpr bool narrow = width <= 64;  ///< two operands and their sums fit in a warp's registers
  static constexpr int block_n = narrow ? 64 : 32;
  static constexpr int blocks = !narrow || Warps == 8 ? 1 : Strips == 1 ? 3 : 2;  ///< that an A100 multiprocessor holds
  static constexpr int score_tiles = block_n / 8;                                 ///< n8 tiles of scores
  static constexpr float scale = static_cast<float>(gradus::detail::inverse_square_root(Depth));
  static constexpr float log2_e = 1.44269504088896341f;
  static constexpr float scale_log2 = scale * log2_e;
  using tile = shared_tile<T, width>;
  static constexpr std::size_t forward_bytes = tile::bytes(block_m + 4 * block_n);
  static constexpr std::size_t dq_bytes = tile::bytes(2 * block_m + 4 * block_n);
  static constexpr std::size_t dkv_bytes = dq_bytes + 4 * block_n * sizeof(float);
  /// Forward of narrow heads has 32 rows a warp: each ldmatrix feeds twice the products.
  using forward = tensor_attention<T, Depth, Causal, narrow ? 2 : 1>;
  /// Backward of whole heads.
  using whole_heads = tensor_attention<T, Depth, Causal, 1, 8>;
  static constexpr bool has_whole_heads = narrow && width % 32 == 0;  // two warps share the columns of 16 rows of dq
  static_assert(block_m % block_n == 0, "a tile's diagonal begins with a streamed tile");
  static_assert(block_n <= threads, "one thread loads each row's lse and delta");
  static_assert(width <= 128, "a warp holds its rows in registers");
  using scores = accumulator[Strips][score_tiles];
  using gradients = accumulator[Strips][2];  ///< of 16 scores of each row: backward needs no more at once
  using sums = accumulator[Strips][width / 8];
  using own_copy = tile_copy<T, width, depth, block_m, threads>;
  using streamed_copy = tile_copy<T, width, depth, block_n, threads>;
  template <bool Held>
  using fragments = row_fragments<T, width, Strips, Held>;

  static constexpr int row_blocks_of(int n) { return (n + block_m - 1) / block_m; }
  static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * warp_rows; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// Row and column, among a warp's rows, of element i of accumulator [strip][n].
  static __device__ int row_of(int strip, int i) { return strip * 16 + lane() / 4 + i / 2 * 8; }
  static __device__ int column_of(int n, int i) { return n * 8 + lane() % 4 * 2 + i % 2; }
  /// The streamed tiles of keys for the queries from q0 on: all, and how many of the first need no mask.
  static __device__ int key_tiles(int q0, int keys) {
    return ((Causal ? ::min(q0 + block_m, keys) : keys) + block_n - 1) / block_n;
  }
  static __device__ int unmasked_key_tiles(int q0, int keys) { return (Causal ? ::min(q0, keys) : keys) / block_n; }
  /// How many keys of tile j a query sees; may be negative.
  static __device__ int keys_seen(int query, int j, int keys) {
    return (Causal ? ::min(query + 1, keys) : keys) - j * block_n;
  }
  template <class U>
  static __device__ U* head(const attention_operand<U>& x, int heads, int pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// Reduces x over the four threads that share a row.
  template <class F>
  static __device__ float reduce_row(float x, const F& f) {
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
    return f(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
  }
};

/// Whether a tile has scores that its rows do not see.
using masked = std::true_type;
using unmasked = std::false_type;

template <class F, class T>
__global__ void __launch_bounds__(F::threads, F::blocks)
    tensor_attention_kernel(int pairs, int heads, attention_operand<T> out, float* lse, attention_operand<const T> q,
                            attention_operand<const T> k, attention_operand<const T> v, int queries, int keys) {
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  const tile qs{shared_address(memory)}, ks = qs.from_row(F::block_m), vs = ks.from_row(2 * F::block_n);
  const int pair = static_cast<int>(blockIdx.x) % pairs;
  const int q0 = (F::row_blocks_of(queries) - 1 - static_cast<int>(blockIdx.x) / pairs) * F::block_m;  // longest first
  const int row = F::warp_row();
  typename F::own_copy(F::head(q, heads, pair), q.time, q0).start(qs, queries - q0);
  typename F::streamed_copy copy_k(F::head(k, heads, pair), k.time, 0), copy_v(F::head(v, heads, pair), v.time, 0);
  const int tiles = F::key_tiles(q0, keys);
  tile_stream stream(tiles, [&](int j, int stage) {
    copy_k.start(ks.from_row(stage * F::block_n), keys - j * F::block_n);
    copy_v.start(vs.from_row(stage * F::block_n), keys - j * F::block_n);
  });
  const typename F::template fragments<F::strips == 1> own(qs, row);
  typename F::sums sum{};
  float row_max[F::strips][2], row_sum[F::strips][2]{};
#pragma unroll
  for (auto& of_strip : row_max) of_strip[0] = of_strip[1] = -INFINITY;
  const auto attend = [&](auto mask) {
    return [&](int j, int stage) {
      if (decltype(mask)::value && F::keys_seen(q0 + row + F::warp_rows - 1, j, keys) <= 0) return;
      typename F::scores s;
      multiply_rows(s, own, ks.from_row(stage * F::block_n));
#pragma unroll
      for (int strip = 0; strip < F::strips; ++strip)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& most = row_max[strip][h];
          const float last_max = most;
          const int seen = F::keys_seen(q0 + row + F::row_of(strip, 2 * h), j, keys);
#pragma unroll
          for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; ++i) {
              float& x = s[strip][n].r[i];
              if (decltype(mask)::value && F::column_of(n, i) >= seen) x = -INFINITY;
              most = fmaxf(most, x);
            }
          most = F::reduce_row(most, [](float a, float b) { return fmaxf(a, b); });
          const float shift = most * F::scale_log2, rescale = coarse_exp2(last_max * F::scale_log2 - shift);
          float& total = row_sum[strip][h];
          total *= rescale;
#pragma unroll
          for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; ++i)
              total += s[strip][n].r[i] = coarse_exp2(fmaf(s[strip][n].r[i], F::scale_log2, -shift));
#pragma unroll
          for (auto& of_columns : sum[strip]) of_columns.r[2 * h] *= rescale, of_columns.r[2 * h + 1] *= rescale;
        }
      add_product(sum, s, vs.from_row(stage * F::block_n));
    };
  };
  stream.run_to(F::unmasked_key_tiles(q0, keys), attend(unmasked{}));
  stream.run_to(tiles, attend(masked{}));
#pragma unroll
  for (int strip = 0; strip < F::strips; ++strip) {
    float by[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float total = F::reduce_row(row_sum[strip][h], [](float a, float b) { return a + b; });
      by[h] = 1 / total;
      const int at = q0 + row + F::row_of(strip, 2 * h);
      if (lse != nullptr && F::lane() % 4 == 0 && at < queries)
        lse[static_cast<index_t>(pair) * queries + at] = row_max[strip][h] * F::scale + math::log(total);
    }
    qs.store_fragment(row + 16 * strip, sum[strip], by[0], by[1]);  // overwrites queries that only this warp reads
  }
  qs.template store_to_global<F::warp_rows, F::depth>(row, F::head(out, heads, pair), out.time, q0 + row, queries,
                                                      false);
}

}  // namespace gradus::cuda_kit
