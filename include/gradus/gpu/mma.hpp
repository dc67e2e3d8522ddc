#pragma once
// Tensor cores: cp.async copies to shared memory, ldmatrix fragments, and mma.sync products with float accumulators:
// m16n8k16 of 16-bit numbers, m16n8k8 of floats rounded to TF32. The words are CUTLASS's and FlashAttention's, except:
//   block_m, block_n     kBlockM and kBlockN, for the tile that a thread block owns and for the tiles that it streams:
//                        queries and keys in forward and dq, keys and queries in dk and dv
//   fragment_b           two adjacent n8 fragments of B, as one ldmatrix.x4 loads them
//   row_lse, row_delta   LSE and dPsum

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "launch.hpp"
#include "runs.hpp"

namespace gradus::cuda_kit {

/// An address in shared memory, as its instructions take it.
__device__ inline std::uint32_t shared_address(const void* in_shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(in_shared));
}
/// Starts a copy of 16 bytes to shared memory: reads the first `valid` (0 or 16), and writes zeros for the others.
__device__ inline void cp_async_16_bytes(std::uint32_t to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
}
__device__ inline void cp_async_4_bytes(std::uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
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
  else if constexpr (std::is_same_v<T, float>)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
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

/// A tile in shared memory: rows of Width elements, in runs of 16 bytes. Swizzled: of each `group` runs of a row, run c
/// lies at c ^ swizzle(row), so that the same run of eight rows that follow each other is in different banks. A
/// fragment has 16 values of k, or 8 of floats, which it holds rounded to TF32.
template <class T, int Width>
struct shared_tile {
  static_assert((sizeof(T) == 2 && Width % 16 == 0) || (std::is_same_v<T, float> && Width % 32 == 0));
  static constexpr int per_run = 16 / sizeof(T);
  static constexpr int runs = Width / per_run;
  static constexpr int group = runs % 8 == 0 ? 8 : runs % 4 == 0 ? 4 : 2;
  static constexpr int row_bytes = static_cast<int>(sizeof(T)) * Width;
  static constexpr std::size_t bytes(int rows) { return static_cast<std::size_t>(rows) * row_bytes; }
  std::uint32_t address;  ///< of row 0

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  // Of floats, the first two runs of four rows are in different banks, too, as transposed fragments read them.
  __device__ static int swizzle(int row) {
    return sizeof(T) == 4 ? row % 4 * 2 + row / 4 % 2 : row / (8 / group) % group;
  }
  __device__ shared_tile from_row(int row) const { return {address + static_cast<std::uint32_t>(row * row_bytes)}; }
  __device__ std::uint32_t at(int row, int run) const {
    return address + static_cast<std::uint32_t>(row * row_bytes + (run ^ swizzle(row)) * 16);
  }

  /// Fragment A: rows row .. row + 15, k from column k on. `row` is a multiple of 8, here and below.
  __device__ fragment_a load_fragment_a(int row, int k) const {
    fragment_a f;
    load<false>(f.r, row, lane() % 16, k, lane() / 16);
    return f;
  }
  /// Fragment A of the transposed tile: its rows are the tile's columns column .. column + 15, its k the tile's rows
  /// from `row` on.
  __device__ fragment_a load_fragment_a_transposed(int row, int column) const {
    fragment_a f;
    if constexpr (sizeof(T) == 4)
      f = {{word(row, column), word(row, column + 8), word(row + 4, column), word(row + 4, column + 8)}};
    else load<true>(f.r, row, lane() / 16 * 8 + lane() % 8, column, lane() / 8 % 2);
    return f;
  }
  /// Fragment B of the transposed tile: its columns are the tile's rows row .. row + 15, its k the tile's columns.
  __device__ fragment_b load_fragment_b(int row, int k) const {
    fragment_b f;
    load<false>(f.r, row, lane() / 16 * 8 + lane() % 8, k, lane() / 8 % 2);
    return f;
  }
  /// Fragment B of the tile itself: its k are the tile's rows from `row` on, its columns the tile's.
  __device__ fragment_b load_fragment_b_transposed(int row, int column) const {
    fragment_b f;
    if constexpr (sizeof(T) == 4)
      f = {{word(row, column), word(row + 4, column), word(row, column + 8), word(row + 4, column + 8)}};
    else load<true>(f.r, row, lane() % 16, column, lane() / 16);
    return f;
  }
  /// Stores 16 rows of accumulators to rows row .. of the tile, from run `run` on, each thread's two rows scaled by the
  /// two factors.
  template <int Tiles>
  __device__ void store_fragment(int row, const accumulator (&c)[Tiles], float first_factor, float second_factor,
                                 int run = 0) const {
    const int r = row + lane() / 4;
    const auto within = static_cast<std::uint32_t>(lane() % 4 * 4);
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
      store_word(at(r, run + n) + within, rounded_pair<T>(c[n].r[0] * first_factor, c[n].r[1] * first_factor));
      store_word(at(r + 8, run + n) + within, rounded_pair<T>(c[n].r[2] * second_factor, c[n].r[3] * second_factor));
    }
  }
  /// Copies rows row .. row + Rows - 1 of the tile to rows first .. of a matrix, those before `end`; by one warp.
  template <int Rows, int Depth>
  __device__ void store_to_global(int row, T* to, index_t stride, int first, int end, bool accumulate) const {
    constexpr int runs_there = Depth / 8;
    __syncwarp();
    for (int i = lane(); i < Rows * runs_there; i += 32) {
      const int r = i / runs_there, run = i % runs_there;
      if (first + r >= end) continue;
      const auto v = load_run(at(row + r, run));
      T* const target = to + (first + r) * stride + run * 8;
      if (accumulate) put<8, true>(target, true, 8, [&](int k) { return static_cast<float>(v.at[k]); });
      else store<8, true>(target, v, 8);
    }
  }

 private:
  __device__ static void store_word(std::uint32_t to, std::uint32_t word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
  }
  __device__ static vector_of<T, 8> load_run(std::uint32_t from) {
    std::uint32_t words[4];
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(from)
                 : "memory");
    vector_of<T, 8> run;
    memcpy(static_cast<void*>(&run), words, sizeof run);
    return run;
  }
  __device__ static std::uint32_t rounded(std::uint32_t word) {
    if constexpr (sizeof(T) == 4) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
    return word;
  }
  // The address of row `row + own_row`, and of the run `own_run` (0 or 1) behind `column`. What is a thread's own is
  // separate, so that the rest becomes a constant of each load.
  __device__ std::uint32_t at(int row, int own_row, int column, int own_run) const {
    const int run = column / per_run, own = own_run ^ swizzle(own_row);
    return address + static_cast<std::uint32_t>(own_row * row_bytes + ((run % group) ^ own) * 16) +
           static_cast<std::uint32_t>(row * row_bytes + run / group * group * 16);
  }
  // The float of row `row + lane % 4` and column `column + lane / 4`; `row` is a multiple of 4.
  __device__ std::uint32_t word(int row, int column) const {
    std::uint32_t w;
    asm volatile("ld.shared.b32 %0, [%1];"
                 : "=r"(w)
                 : "r"(at(row / 8 * 8, row % 8 + lane() % 4, column, lane() / 16) +
                       static_cast<std::uint32_t>(lane() / 4 % 4 * 4))
                 : "memory");
    return rounded(w);
  }
  // ldmatrix of four matrices, whose rows are those of 16 bytes at this thread's address.
  template <bool Transposed>
  __device__ void load(std::uint32_t (&r)[4], int row, int own_row, int column, int own_run) const {
    const std::uint32_t from = at(row, own_row, column, own_run);
    if constexpr (Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from)
                   : "memory");
    for (std::uint32_t& w : r) w = rounded(w);
  }
};

/// A thread's part of the copies of a matrix to tiles of Rows rows, by Threads threads, one tile after another. Only the
/// first Depth columns of the matrix are read; the tile's others become zero.
template <class T, int Width, int Depth, int Rows, int Threads>
class tile_copy {
  using tile = shared_tile<T, Width>;
  static_assert(Depth % tile::per_run == 0);
  static constexpr int threads_per_row = static_cast<int>(std::bit_ceil(static_cast<unsigned>(tile::runs)));
  static constexpr int rows_at_once = Threads / threads_per_row < Rows ? Threads / threads_per_row : Rows;
  static_assert(Rows % rows_at_once == 0 && rows_at_once % 8 == 0, "a thread's run has one swizzle");

 public:
  /// Copies rows from number `first` of `from` on, which has `stride` elements from row to row.
  __device__ tile_copy(const T* from, index_t stride, int first)
      : stride_(static_cast<int>(stride) * rows_at_once),
        next_(from + static_cast<index_t>(first + row()) * stride + run() * tile::per_run) {}

  /// Starts copies of the next Rows rows: `left` of them exist, the others become zero.
  __device__ void start(tile to, int left) {
    if (run() >= tile::runs || row() >= Rows) return;
    if (left >= Rows) start_rows<true>(to, left);
    else start_rows<false>(to, left);
  }

 private:
  __device__ static int row() { return static_cast<int>(threadIdx.x) / threads_per_row; }
  __device__ static int run() { return static_cast<int>(threadIdx.x) % threads_per_row; }
  template <bool All>
  __device__ void start_rows(tile to, int left) {
    const std::uint32_t target = to.at(row(), run());
#pragma unroll
    for (int i = 0; i < Rows / rows_at_once; ++i, next_ += stride_) {
      const bool valid = (All || row() + i * rows_at_once < left) && (Depth == Width || run() < Depth / tile::per_run);
      cp_async_16_bytes(target + static_cast<std::uint32_t>(tile::bytes(i * rows_at_once)), next_, valid ? 16 : 0);
    }
  }

  int stride_;
  const T* next_;
};

/// Double-buffered streaming of tiles begin .. end - 1: load(tile, stage) fills a stage while the other is computed.
template <class Load>
class tile_stream {
 public:
  /// Loads the first tile; returns when it, and all copies that were started before, have landed.
  __device__ tile_stream(int begin, int end, Load load) : at_(begin), end_(end), load_(load) {
    load_(begin, begin % 2);
    land();
  }
  /// compute(tile, stage) for the next tiles, up to `end`.
  template <class Compute>
  __device__ void run_to(int end, const Compute& compute) {
    for (; at_ < end; ++at_) {
      if (at_ + 1 < end_) load_(at_ + 1, (at_ + 1) % 2);
      compute(at_, at_ % 2);
      land();
    }
  }

 private:
  __device__ static void land() {
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
  }
  int at_, end_;
  Load load_;
};

/// Rows row .. row + 16 * Strips - 1 of a tile as fragments A: in registers (Held), or loaded at each use.
template <class T, int Width, int Strips, bool Held>
class row_fragments {
 public:
  row_fragments() = default;
  __device__ row_fragments(shared_tile<T, Width> from, int row) { take(from, row); }
  __device__ void take(shared_tile<T, Width> from, int row) {
    from_ = from;
    row_ = row;
    if constexpr (Held) {
#pragma unroll
      for (int strip = 0; strip < Strips; ++strip)
#pragma unroll
        for (int k = 0; k < Width; k += 16) held_[strip][k / 16] = from.load_fragment_a(row + 16 * strip, k);
    }
  }
  __device__ fragment_a operator()(int strip, int k) const {
    if constexpr (Held) return held_[strip][k / 16];
    else return from_.load_fragment_a(row_ + 16 * strip, k);
  }

 private:
  shared_tile<T, Width> from_;
  int row_;
  fragment_a held_[Strips][Held ? Width / 16 : 1];
};

/// c = A B^T for Strips * 16 rows of A and Tiles * 8 rows of B.
template <class T, int Width, int Strips, bool Held, int Tiles>
__device__ inline void multiply_rows(accumulator (&c)[Strips][Tiles], const row_fragments<T, Width, Strips, Held>& a,
                                     shared_tile<T, Width> b) {
#pragma unroll
  for (int strip = 0; strip < Strips; ++strip)
#pragma unroll
    for (int n = 0; n < Tiles; ++n) c[strip][n] = {};
#pragma unroll
  for (int k = 0; k < Width; k += 16) {
    fragment_a left[Strips];
#pragma unroll
    for (int strip = 0; strip < Strips; ++strip) left[strip] = a(strip, k);
#pragma unroll
    for (int n = 0; n < Tiles; n += 2) {
      const fragment_b right = b.load_fragment_b(n * 8, k);
#pragma unroll
      for (int strip = 0; strip < Strips; ++strip) {
        mma<T>(c[strip][n], left[strip], right.r[0], right.r[1]);
        mma<T>(c[strip][n + 1], left[strip], right.r[2], right.r[3]);
      }
    }
  }
}
/// c += w B, where w [Strips * 16, Terms * 8] are accumulators of this warp, rounded to T.
template <class T, int Width, int Strips, int Terms>
__device__ inline void add_product(accumulator (&c)[Strips][Width / 8], const accumulator (&w)[Strips][Terms],
                                   shared_tile<T, Width> b) {
#pragma unroll
  for (int k = 0; k < Terms; k += 2) {
    fragment_a left[Strips];
#pragma unroll
    for (int strip = 0; strip < Strips; ++strip) {
      const accumulator &first = w[strip][k], &second = w[strip][k + 1];
      left[strip] = {{rounded_pair<T>(first.r[0], first.r[1]), rounded_pair<T>(first.r[2], first.r[3]),
                      rounded_pair<T>(second.r[0], second.r[1]), rounded_pair<T>(second.r[2], second.r[3])}};
    }
#pragma unroll
    for (int n = 0; n < Width / 8; n += 2) {
      const fragment_b right = b.load_fragment_b_transposed(k * 8, n * 8);
#pragma unroll
      for (int strip = 0; strip < Strips; ++strip) {
        mma<T>(c[strip][n], left[strip], right.r[0], right.r[1]);
        mma<T>(c[strip][n + 1], left[strip], right.r[2], right.r[3]);
      }
    }
  }
}

}  // namespace gradus::cuda_kit
