#pragma once
// Tensor cores: cp.async copies to shared memory, ldmatrix fragments, and mma.sync m16n8k16 products of 16-bit numbers
// with float accumulators. The words are those of CUTLASS and FlashAttention, except:
//   block_m, block_n     kBlockM and kBlockN, for the tile that a thread block owns and for the tiles that it streams:
//                        queries and keys in forward and dq, keys and queries in dk and dv
//   fragment_b           two adjacent n8 fragments of B, as one ldmatrix.x4 loads them
//   row_lse, row_delta   LSE and dPsum

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "launch.hpp"
#include "runs.hpp"

namespace gradus::cuda_kit {

/// Starts a copy of 16 bytes to shared memory; if not `valid`, writes zeros and reads nothing.
__device__ inline void cp_async_16_bytes(void* to, const void* from, bool valid) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void cp_async_4_bytes(void* to, const void* from, bool valid) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
/// Closes a group of copies; cp_async_wait<N> returns when all groups of this thread but the latest N are complete.
__device__ inline void cp_async_fence() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

struct fragment_a {
  std::uint32_t r[4];
};
struct fragment_b {  // two adjacent n8 tiles
  std::uint32_t r[4];
};
struct accumulator {  // [0], [1]: row lane / 4, columns 2 (lane % 4) and the next; [2], [3]: row lane / 4 + 8
  float r[4];
};

/// c += a b for one n8 tile of b.
template <class T>
__device__ inline void mma(accumulator& c, const fragment_a& a, std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, bf16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
}

/// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ inline std::uint32_t rounded_pair(float first, float second) {
  std::uint32_t pair;
  if constexpr (std::is_same_v<T, bf16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

/// A tile in shared memory, rows of Width elements and 16 bytes of padding: eight rows start in different banks.
template <class T, int Width>
struct shared_tile {
  static_assert(sizeof(T) == 2 && Width % 16 == 0);
  static constexpr int row_stride = Width + 8;
  static constexpr std::size_t bytes(int rows) { return sizeof(T) * static_cast<std::size_t>(rows) * row_stride; }
  T* data;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Starts copies of rows first .. of a matrix, `stride` elements from row to row, by all Threads threads. Only the
  /// first Depth columns are read; the others, and rows from `end` on, become zero.
  template <int Rows, int Depth, int Threads>
  __device__ void load_async(const T* from, index_t stride, index_t first, index_t end) const {
    static_assert(Depth % 8 == 0);
    constexpr int runs = Width / 8;
    for (int i = static_cast<int>(threadIdx.x); i < Rows * runs; i += Threads) {
      const int r = i / runs, at = i % runs * 8;
      const bool valid = first + r < end && at < Depth;
      cp_async_16_bytes(data + r * row_stride + at, valid ? from + (first + r) * stride + at : from, valid);
    }
  }
  /// Fragment A: rows row .. row + 15, columns k .. k + 15.
  __device__ fragment_a load_fragment_a(int row, int k) const {
    fragment_a f;
    load(f.r, data + (row + lane() % 16) * row_stride + k + lane() / 16 * 8);
    return f;
  }
  /// Fragment B of the transposed tile: its columns are the tile's rows row .. row + 15, its k the tile's columns.
  __device__ fragment_b load_fragment_b(int row, int k) const {
    fragment_b f;
    load(f.r, data + (row + lane() / 16 * 8 + lane() % 8) * row_stride + k + lane() / 8 % 2 * 8);
    return f;
  }
  /// Fragment B of the tile itself: its k are the tile's rows row .. row + 15, its columns the tile's.
  __device__ fragment_b load_fragment_b_transposed(int row, int column) const {
    fragment_b f;
    const auto address = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(data + (row + lane() % 16) * row_stride + column + lane() / 16 * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
    return f;
  }
  /// Stores 16 rows of accumulators to rows row .. of the tile, each thread's two rows scaled by the two factors.
  template <int Tiles>
  __device__ void store_fragment(int row, const accumulator (&c)[Tiles], float first_factor,
                                 float second_factor) const {
    auto* const words = reinterpret_cast<std::uint32_t*>(data + (row + lane() / 4) * row_stride + lane() % 4 * 2);
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      words[n * 4] = rounded_pair<T>(c[n].r[0] * first_factor, c[n].r[1] * first_factor);
      words[n * 4 + 8 * row_stride / 2] = rounded_pair<T>(c[n].r[2] * second_factor, c[n].r[3] * second_factor);
    }
  }
  /// Copies rows row .. row + 15 of the tile to rows first .. of a matrix, those before `end`; by one warp.
  template <int Depth>
  __device__ void store_to_global(int row, T* to, index_t stride, index_t first, index_t end, bool accumulate) const {
    constexpr int runs = Depth / 8;
    __syncwarp();
    for (int i = lane(); i < 16 * runs; i += 32) {
      const int r = i / runs, at = i % runs * 8;
      if (first + r >= end) continue;
      const auto v = cuda_kit::load<8, true>(data + (row + r) * row_stride + at, 8);
      T* const target = to + (first + r) * stride + at;
      if (accumulate) put<8, true>(target, true, 8, [&](int k) { return static_cast<float>(v.at[k]); });
      else store<8, true>(target, v, 8);
    }
  }

 private:
  __device__ static void load(std::uint32_t (&r)[4], const T* from) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
};

/// c = A B^T for 16 rows of A, from `row` on, and Tiles * 8 rows of B.
template <class T, int Width, int Tiles>
__device__ inline void multiply_rows(accumulator (&c)[Tiles], shared_tile<T, Width> a, int row,
                                     shared_tile<T, Width> b) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) c[n] = {};
#pragma unroll
  for (int k = 0; k < Width; k += 16) {
    const fragment_a left = a.load_fragment_a(row, k);
#pragma unroll
    for (int n = 0; n < Tiles; n += 2) {
      const fragment_b right = b.load_fragment_b(n * 8, k);
      mma<T>(c[n], left, right.r[0], right.r[1]);
      mma<T>(c[n + 1], left, right.r[2], right.r[3]);
    }
  }
}
/// c += w B, where w [16, Terms * 8] are accumulators of this warp, rounded to T.
template <class T, int Width, int Terms>
__device__ inline void add_product(accumulator (&c)[Width / 8], const accumulator (&w)[Terms],
                                   shared_tile<T, Width> b) {
#pragma unroll
  for (int k = 0; k < Terms; k += 2) {
    const fragment_a left = {{rounded_pair<T>(w[k].r[0], w[k].r[1]), rounded_pair<T>(w[k].r[2], w[k].r[3]),
                              rounded_pair<T>(w[k + 1].r[0], w[k + 1].r[1]),
                              rounded_pair<T>(w[k + 1].r[2], w[k + 1].r[3])}};
#pragma unroll
    for (int n = 0; n < Width / 8; n += 2) {
      const fragment_b right = b.load_fragment_b_transposed(k * 8, n * 8);
      mma<T>(c[n], left, right.r[0], right.r[1]);
      mma<T>(c[n + 1], left, right.r[2], right.r[3]);
    }
  }
}

}  // namespace gradus::cuda_kit
