#pragma once
// Tensor cores: products of tiles of 16-bit numbers that lie in shared memory, a strip of 16 rows a warp, and copies
// into them that run beside the products. The names of the parts are those of PTX: A (rows by k) comes from shared
// memory or from earlier results, B (k by columns) from shared memory, as it lies or turned; sums are float.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "launch.hpp"
#include "runs.hpp"

namespace gradus::cuda_kit {

/// Starts a copy of 16 bytes to shared memory; zeros where `there` is false, when nothing is read.
__device__ inline void copy_16_bytes(void* to, const void* from, bool there) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
__device__ inline void copy_4_bytes(void* to, const void* from, bool there) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(there ? 4 : 0) : "memory");
}
/// Ends a group of copies; wait_for_copies<N> returns when all groups of this thread but the last N are there.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

struct fragment_a {
  std::uint32_t r[4];
};
struct fragments_b {  // of two neighbouring strips of 8 columns
  std::uint32_t r[4];
};
struct fragment_c {  // rows lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next one: [0], [1] and [2], [3]
  float r[4];
};

/// c += a b for one of the strips of b.
template <class T>
__device__ inline void multiply(fragment_c& c, const fragment_a& a, std::uint32_t b0, std::uint32_t b1) {
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

/// A tile of rows of Width numbers of T in shared memory; rows are 16 bytes further apart, so that eight of them lie in
/// different banks.
template <class T, int Width>
struct shared_tile {
  static_assert(sizeof(T) == 2 && Width % 16 == 0);
  static constexpr int apart = Width + 8;
  static constexpr std::size_t bytes(int rows) { return sizeof(T) * static_cast<std::size_t>(rows) * apart; }
  T* data;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  /// Starts copies of rows first .. of an array, `time` elements from row to row, of which the first Depth elements
  /// count; zeros elsewhere and from row `end` on. All Threads threads.
  template <int Rows, int Depth, int Threads>
  __device__ void gather(const T* from, index_t time, index_t first, index_t end) const {
    static_assert(Depth % 8 == 0);
    constexpr int runs = Width / 8;
    for (int i = static_cast<int>(threadIdx.x); i < Rows * runs; i += Threads) {
      const int r = i / runs, at = i % runs * 8;
      const bool there = first + r < end && at < Depth;
      copy_16_bytes(data + r * apart + at, there ? from + (first + r) * time + at : from, there);
    }
  }
  /// A of rows row .. row + 15 and columns k .. k + 15.
  __device__ fragment_a a(int row, int k) const {
    fragment_a f;
    load(f.r, data + (row + lane() % 16) * apart + k + lane() / 16 * 8);
    return f;
  }
  /// B whose columns are the tile's rows row .. row + 15, and whose k are its columns k .. k + 15.
  __device__ fragments_b rows_as_columns(int row, int k) const {
    fragments_b f;
    load(f.r, data + (row + lane() / 16 * 8 + lane() % 8) * apart + k + lane() / 8 % 2 * 8);
    return f;
  }
  /// B as it lies: k are the rows row .. row + 15, columns those of the tile from `column` to column + 15.
  __device__ fragments_b as_it_lies(int row, int column) const {
    fragments_b f;
    const auto address = static_cast<std::uint32_t>(
        __cvta_generic_to_shared(data + (row + lane() % 16) * apart + column + lane() / 16 * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
                 : "r"(address)
                 : "memory");
    return f;
  }
  /// A strip of 16 rows of results, times `factors` of the two rows of a thread, into rows row .. of the tile.
  template <int Strips>
  __device__ void keep(int row, const fragment_c (&c)[Strips], float first_factor, float second_factor) const {
    auto* const words = reinterpret_cast<std::uint32_t*>(data + (row + lane() / 4) * apart + lane() % 4 * 2);
#pragma unroll
    for (int n = 0; n < Strips; ++n) {
      words[n * 4] = rounded_pair<T>(c[n].r[0] * first_factor, c[n].r[1] * first_factor);
      words[n * 4 + 8 * apart / 2] = rounded_pair<T>(c[n].r[2] * second_factor, c[n].r[3] * second_factor);
    }
  }
  /// Rows row .. row + 15 of the tile into rows first .. of an array, as far as they are before `end`; by one warp.
  template <int Depth>
  __device__ void scatter(int row, T* to, index_t time, index_t first, index_t end, bool accumulate) const {
    constexpr int runs = Depth / 8;
    __syncwarp();
    for (int i = lane(); i < 16 * runs; i += 32) {
      const int r = i / runs, at = i % runs * 8;
      if (first + r >= end) continue;
      const auto v = cuda_kit::load<8, true>(data + (row + r) * apart + at, 8);
      T* const target = to + (first + r) * time + at;
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

/// c = (16 rows of A from `row` on) (Strips * 8 rows of B)^T.
template <class T, int Width, int Strips>
__device__ inline void multiply_rows(fragment_c (&c)[Strips], shared_tile<T, Width> a, int row,
                                     shared_tile<T, Width> b) {
#pragma unroll
  for (int n = 0; n < Strips; ++n) c[n] = {};
#pragma unroll
  for (int k = 0; k < Width; k += 16) {
    const fragment_a left = a.a(row, k);
#pragma unroll
    for (int n = 0; n < Strips; n += 2) {
      const fragments_b right = b.rows_as_columns(n * 8, k);
      multiply<T>(c[n], left, right.r[0], right.r[1]);
      multiply<T>(c[n + 1], left, right.r[2], right.r[3]);
    }
  }
}
/// c += w B, where w are results of this warp, [16, Terms * 8], rounded to T, and B is a tile as it lies.
template <class T, int Width, int Terms>
__device__ inline void add_product(fragment_c (&c)[Width / 8], const fragment_c (&w)[Terms], shared_tile<T, Width> b) {
#pragma unroll
  for (int k = 0; k < Terms; k += 2) {
    const fragment_a left = {{rounded_pair<T>(w[k].r[0], w[k].r[1]), rounded_pair<T>(w[k].r[2], w[k].r[3]),
                              rounded_pair<T>(w[k + 1].r[0], w[k + 1].r[1]),
                              rounded_pair<T>(w[k + 1].r[2], w[k + 1].r[3])}};
#pragma unroll
    for (int n = 0; n < Width / 8; n += 2) {
      const fragments_b right = b.as_it_lies(k * 8, n * 8);
      multiply<T>(c[n], left, right.r[0], right.r[1]);
      multiply<T>(c[n + 1], left, right.r[2], right.r[3]);
    }
  }
}

}  // namespace gradus::cuda_kit
