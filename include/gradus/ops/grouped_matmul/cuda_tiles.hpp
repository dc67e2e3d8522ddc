#pragma once
// The product of one tile of C by one thread block: on tensor cores, and with plain multiply-adds.

#include <cstddef>

#include "../../core/dtype.hpp"
#include "../../core/extent.hpp"
#include "../../gpu/mma.hpp"
#include "../../gpu/runs.hpp"

namespace gradus::cuda_kit {

/// C = op(A) op(B) from the tile's first element on: m x n elements of k terms are left; a tile computes as many as it
/// has. Strides are from row to row, as stored.
template <class TA, class TB, class TC>
struct tile_product {
  const TA* a;
  index_t lda;
  const TB* b;
  index_t ldb;
  TC* c;
  index_t ldc, m, n, k;
  bool accumulate;
};

/// Tiles of any types and sizes, summed in C. A thread has 4 x 4 elements.
template <class C>
struct plain_tiles {
  static constexpr int rows = 64, columns = 64, depth = 16, threads = 256;
  static constexpr std::size_t bytes = depth * (rows + columns) * sizeof(C);

  template <bool TransposeA, bool TransposeB, class TA, class TB, class TC>
  static __device__ void run(void* memory, const tile_product<TA, TB, TC>& of) {
    C* const as = static_cast<C*>(memory);  // [depth, rows], and behind it [depth, columns]
    C* const bs = as + depth * rows;
    const int row = static_cast<int>(threadIdx.x) / 16, column = static_cast<int>(threadIdx.x) % 16;
    C sum[4][4] = {};
    for (index_t first = 0; first < of.k; first += depth) {
      for (int i = static_cast<int>(threadIdx.x); i < depth * rows; i += threads) {
        // Neighbouring threads read neighbouring elements.
        const int p = TransposeA ? i / rows : i % depth, r = TransposeA ? i % rows : i / depth;
        const bool there = first + p < of.k && r < of.m;
        as[p * rows + r] =
            there ? static_cast<C>(TransposeA ? of.a[(first + p) * of.lda + r] : of.a[r * of.lda + first + p]) : C(0);
      }
      for (int i = static_cast<int>(threadIdx.x); i < depth * columns; i += threads) {
        const int p = TransposeB ? i % depth : i / columns, s = TransposeB ? i / depth : i % columns;
        const bool there = first + p < of.k && s < of.n;
        bs[p * columns + s] =
            there ? static_cast<C>(TransposeB ? of.b[s * of.ldb + first + p] : of.b[(first + p) * of.ldb + s]) : C(0);
      }
      __syncthreads();
#pragma unroll
      for (int p = 0; p < depth; ++p) {
        C left[4], right[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          left[i] = as[p * rows + row + 16 * i];
          right[i] = bs[p * columns + column + 16 * i];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += left[i] * right[j];
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (row + 16 * i < of.m && column + 16 * j < of.n)
          put<1, true>(of.c + (row + 16 * i) * of.ldc + column + 16 * j, of.accumulate, 1,
                       [&](int) { return sum[i][j]; });
  }
};

/// Tiles of a 16-bit type T, or of floats rounded to TF32, whose matrices' rows are multiples of `depth` (`fits`). Each
/// of four warps has a quarter, 64 x 64, which makes the most products of what it loads from shared memory.
template <class T>
struct tensor_tiles {
  static constexpr int rows = 128, columns = 128, threads = 128;
  static constexpr int depth = 128 / sizeof(T), step_depth = depth / 4;  // terms of a stage and of one mma
  static constexpr bool fits(index_t in, index_t out) { return in % depth == 0 && out % depth == 0; }
  using tile = shared_tile<T, depth>;
  static constexpr std::size_t bytes = tile::bytes(2 * (rows + columns));  // two stages of A and of B

  template <bool TransposeA, bool TransposeB, class TC>
  static __device__ void run(void* memory, const tile_product<T, T, TC>& of) {
    const tile as{shared_address(memory)}, bs = as.from_row(2 * rows);
    const int steps = static_cast<int>((of.k + depth - 1) / depth), m = static_cast<int>(of.m),
              n = static_cast<int>(of.n), k = static_cast<int>(of.k);
    tile_stream stream(0, steps, [&](int step, int stage) {
      copy<TransposeA>(as.from_row(stage * rows), of.a, of.lda, step, m, k);
      copy<!TransposeB>(bs.from_row(stage * columns), of.b, of.ldb, step, n, k);
    });
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int row = warp / 2 * 64, column = warp % 2 * 64;
    accumulator sum[4][8] = {};
    stream.run_to(steps, [&](int, int stage) {
      if (row >= m || column >= n) return;
      const tile a = as.from_row(stage * rows + row), b = bs.from_row(stage * columns + column);
#pragma unroll 2  // more would need more registers than there are
      for (int p = 0; p < depth; p += step_depth) {
        fragment_a left[4];
#pragma unroll
        for (int strip = 0; strip < 4; ++strip)
          left[strip] = TransposeA ? panel(a, 16 * strip).load_fragment_a_transposed(p, 16 * strip % depth)
                                   : a.load_fragment_a(16 * strip, p);
#pragma unroll
        for (int s = 0; s < 8; s += 2) {
          const fragment_b right =
              TransposeB ? b.load_fragment_b(8 * s, p) : panel(b, 8 * s).load_fragment_b_transposed(p, 8 * s % depth);
#pragma unroll
          for (int strip = 0; strip < 4; ++strip) {
            mma<T>(sum[strip][s], left[strip], right.r[0], right.r[1]);
            mma<T>(sum[strip][s + 1], left[strip], right.r[2], right.r[3]);
          }
        }
      }
    });
#pragma unroll
    for (int strip = 0; strip < 4; ++strip)
#pragma unroll
      for (int s = 0; s < 8; ++s)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int r = row + 16 * strip + lane / 4 + 8 * half, at = column + 8 * s + lane % 4 * 2;
          if (r < m && at < n)
            put<2, true>(of.c + r * of.ldc + at, of.accumulate, 2,
                         [&](int i) { return sum[strip][s].r[2 * half + i]; });
        }
  }

 private:
  // An operand whose rows are terms lies in panels of `depth` columns, one behind the other.
  static __device__ tile panel(tile from, int column) { return from.from_row(column / depth * depth); }
  // Starts the copy of step number `step` of an operand: of its rows if the terms of the sum are its rows, else of its
  // columns. What is not there becomes zero.
  template <bool TermsAreRows>
  static __device__ void copy(tile to, const T* from, index_t stride, int step, int others, int terms) {
    if constexpr (TermsAreRows) {
#pragma unroll
      for (int first = 0; first < rows; first += depth)
        tile_copy<T, depth, depth, depth, threads>(from + first, stride, step * depth)
            .start(panel(to, first), first < others ? terms - step * depth : 0);
    } else {
      tile_copy<T, depth, depth, rows, threads>(from + step * depth, stride, 0).start(to, others);
    }
  }
};

}  // namespace gradus::cuda_kit
