#pragma once
// FlashAttention-2 on tensor cores, for 16-bit types and head widths that are multiples of 8, up to 128: the tiles, and
// the forward kernel. Backward is in cuda_tensor_backward.hpp.

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "../../core/math.hpp"
#include "../../gpu/coarse_number.hpp"
#include "../../gpu/launch.hpp"
#include "../../gpu/mma.hpp"
#include "../../gpu/runs.hpp"
#include "cuda_tensor_rules.hpp"

namespace gradus::cuda_kit {

/// The algorithm of cuda_flash.hpp on tensor cores. Each of a block's warps has 16 * Strips rows of its tile; streamed
/// tiles are double-buffered: one stage loads while the other is computed. Weights are rounded to T for the products.
/// @tparam Rules plain_scores or ruled_scores
template <class T, index_t Depth, class Rules, int Strips = 1, int Warps = 4>
struct tensor_attention {
  static constexpr int threads = 32 * Warps;
  static constexpr int strips = Strips;
  static constexpr int warp_rows = 16 * Strips;
  static constexpr int block_m = warp_rows * Warps;
  static constexpr int depth = static_cast<int>(Depth);
  static constexpr int width = (depth + 15) / 16 * 16;
  static constexpr bool narrow = width <= 64;  ///< two operands and their sums fit in a warp's registers
  static constexpr int block_n = narrow ? 64 : 32;
  static constexpr int blocks = !narrow || Warps == 8 ? 1 : Strips == 1 ? 3 : 2;  ///< that an A100 multiprocessor holds
  static constexpr int score_tiles = block_n / 8;                                 ///< n8 tiles of scores
  using rules = Rules;
  using tile = shared_tile<T, width>;
  static constexpr std::size_t forward_tiles = tile::bytes(block_m + 4 * block_n);
  static constexpr std::size_t backward_tiles = tile::bytes(2 * block_m + 4 * block_n);
  static constexpr std::size_t seen_bytes = Rules::plain ? 0 : block_m * sizeof(seen_between);  ///< behind the tiles
  static constexpr std::size_t forward_bytes = forward_tiles + seen_bytes;
  static constexpr std::size_t dq_bytes = backward_tiles + seen_bytes;
  static constexpr std::size_t dkv_bytes = dq_bytes + 4 * block_n * sizeof(float);
  /// Forward of narrow heads has 32 rows a warp, if registers suffice: each ldmatrix feeds twice the products.
  using forward = tensor_attention<T, Depth, Rules, narrow && Rules::plain ? 2 : 1>;
  /// Backward of whole heads.
  using whole_heads = tensor_attention<T, Depth, Rules, 1, 8>;
  static constexpr bool has_whole_heads = narrow && width % 32 == 0;  // two warps share the columns of 16 rows of dq
  static_assert(forward_bytes <= least_block_memory && dkv_bytes <= least_block_memory, "tiles fit in every GPU");
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
  template <class U>
  static __device__ U* head(const attention_operand<U>& x, int heads, int pair) {
    return x.data + pair / heads * x.batch + pair % heads * x.head;
  }
  /// The head of keys or values that head `pair` of queries uses.
  template <class U>
  static __device__ U* head_of_keys(const attention_operand<U>& x, const Rules& is, int heads, int pair) {
    return head(x, heads / is.group, pair / is.group);
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

/// What the rows of a block see, by of(row): in shared memory, from the next barrier on, unless the rules are plain.
template <class F, class Of>
class seen_by_rows {
 public:
  __device__ seen_by_rows(unsigned char* shared, Of of) : of_(of), shared_(reinterpret_cast<seen_between*>(shared)) {
    if constexpr (!F::rules::plain)
      if (const int row = static_cast<int>(threadIdx.x); row < F::block_m) shared_[row] = of_(row);
  }
  __device__ auto operator()(int row) const {
    if constexpr (F::rules::plain) return of_(row);
    else return shared_[row];
  }
  /// Whether a row of this warp sees one of `count` positions from `begin` on.
  __device__ bool warp_meets(int begin, int count) const {
    return __any_sync(0xFFFFFFFFu, (*this)(F::warp_row() + F::lane() % F::warp_rows).from(begin).meets(count));
  }

 private:
  static_assert(F::block_m <= F::threads || F::rules::plain, "a thread computes a row's");
  Of of_;
  seen_between* shared_;
};
/// seen_by_rows<F>, of a lambda.
template <class F, class Of>
__device__ seen_by_rows<F, Of> rows_see(unsigned char* shared, Of of) {
  return {shared, of};
}

/// Runs attend(masked or unmasked) over a span of tiles.
template <class Rules, class Stream, class Attend>
__device__ inline void run_over(Stream& stream, const tile_span& span, const Attend& attend) {
  const auto with_mask = attend(masked{});
  const auto without = attend(unmasked{});
  if constexpr (Rules::plain) {
    stream.run_to(span.whole, with_mask);
    stream.run_to(span.whole_end, without);
    stream.run_to(span.end, with_mask);
  } else {  // one loop is less code
    stream.run_to(span.end, [&](int j, int stage) {
      if (Rules::scored || j < span.whole || j >= span.whole_end) with_mask(j, stage);
      else without(j, stage);
    });
  }
}

template <class F, class T>
__global__ void __launch_bounds__(F::threads, F::blocks)
    tensor_attention_kernel(int pairs, int heads, attention_operand<T> out, float* lse, attention_operand<const T> q,
                            attention_operand<const T> k, attention_operand<const T> v, int queries, int keys,
                            typename F::rules is) {
  using rules = typename F::rules;
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  const tile qs{shared_address(memory)}, ks = qs.from_row(F::block_m), vs = ks.from_row(2 * F::block_n);
  const int pair = static_cast<int>(blockIdx.x) % pairs;
  const int q0 = (F::row_blocks_of(queries) - 1 - static_cast<int>(blockIdx.x) / pairs) * F::block_m;  // longest first
  const int row = F::warp_row();
  is.enter(heads, pair);
  typename F::own_copy(F::head(q, heads, pair), q.time, q0).start(qs, queries - q0);
  const tile_span span = is.template key_tiles<F>(q0, queries, keys);
  const auto seen = rows_see<F>(memory + F::forward_tiles, [=](int r) { return is.keys_of(q0 + r, keys); });
  typename F::streamed_copy copy_k(F::head_of_keys(k, is, heads, pair), k.time, span.begin * F::block_n),
      copy_v(F::head_of_keys(v, is, heads, pair), v.time, span.begin * F::block_n);
  tile_stream stream(span.begin, span.end, [&](int j, int stage) {
    copy_k.start(ks.from_row(stage * F::block_n), keys - j * F::block_n);
    copy_v.start(vs.from_row(stage * F::block_n), keys - j * F::block_n);
  });
  const typename F::template fragments<F::strips == 1 && rules::plain> own(qs, row);
  typename F::sums sum{};
  float row_max[F::strips][2], row_sum[F::strips][2]{};
#pragma unroll
  for (auto& of_strip : row_max) of_strip[0] = of_strip[1] = -INFINITY;
  const auto attend = [&](auto mask) {
    return [&](int j, int stage) {
      const int j0 = j * F::block_n;
      if (decltype(mask)::value && !seen.warp_meets(j0, F::block_n)) return;
      [[maybe_unused]] kept_rows<F::score_tiles> kept[F::strips];
      if constexpr (rules::drops)
#pragma unroll
        for (int strip = 0; strip < F::strips; ++strip)
          kept[strip] = is.template kept_rows_of<F::score_tiles>(q0 + row + 16 * strip, j0);
      typename F::scores s;
      multiply_rows(s, own, ks.from_row(stage * F::block_n));
#pragma unroll
      for (int strip = 0; strip < F::strips; ++strip) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& most = row_max[strip][h];
          const float last_max = most;
          const auto seen_here = seen(row + F::row_of(strip, 2 * h)).from(j0);
#pragma unroll
          for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; ++i) {
              float& x = s[strip][n].r[i];
              if constexpr (rules::scored) x = is.score(x, q0 + row + F::row_of(strip, i), j0 + F::column_of(n, i));
              if (decltype(mask)::value && !seen_here.has(F::column_of(n, i))) x = -INFINITY;
              most = fmaxf(most, x);
            }
          most = F::reduce_row(most, [](float a, float b) { return fmaxf(a, b); });
          const float shift = !rules::plain && most == -INFINITY ? 0.0f : most * is.scale_log2;
          const float rescale = coarse_exp2(last_max * is.scale_log2 - shift);
          float& total = row_sum[strip][h];
          total *= rescale;
#pragma unroll
          for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; ++i)
              total += s[strip][n].r[i] = coarse_exp2(fmaf(s[strip][n].r[i], is.scale_log2, -shift));
#pragma unroll
          for (auto& of_columns : sum[strip]) of_columns.r[2 * h] *= rescale, of_columns.r[2 * h + 1] *= rescale;
        }
        if constexpr (rules::drops) {
#pragma unroll
          for (int n = 0; n < F::score_tiles; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) s[strip][n].r[i] = kept[strip](s[strip][n].r[i], n, i);
        }
      }
      add_product(sum, s, vs.from_row(stage * F::block_n));
    };
  };
  run_over<rules>(stream, span, attend);
#pragma unroll
  for (int strip = 0; strip < F::strips; ++strip) {
    float by[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float total = F::reduce_row(row_sum[strip][h], [](float a, float b) { return a + b; });
      const bool empty = !rules::plain && total == 0;
      by[h] = empty ? 0.0f : is.kept / total;
      const int at = q0 + row + F::row_of(strip, 2 * h);
      if (lse != nullptr && F::lane() % 4 == 0 && at < queries)
        lse[static_cast<index_t>(pair) * queries + at] =
            empty ? 0.0f : row_max[strip][h] * is.natural + math::log(total);
    }
    qs.store_fragment(row + 16 * strip, sum[strip], by[0], by[1]);  // overwrites queries that only this warp reads
  }
  qs.template store_to_global<F::warp_rows, F::depth>(row, F::head(out, heads, pair), out.time, q0 + row, queries,
                                                      false);
}

}  // namespace gradus::cuda_kit
