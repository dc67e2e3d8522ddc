#pragma once
// A row in the registers of a warp or block, for softmax and norms: read once, with sums in a fixed order.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../core/math.hpp"
#include "runs.hpp"

namespace gradus::cuda_kit {

/// Rows that a block has at once if each has this many threads.
constexpr int rows_in_block(int threads) { return threads < 256 ? 256 / threads : 1; }

/// Waits for the other threads of the row. A row of several in a block has a barrier of its own, beside the block's.
template <int Threads, int Row = 0>
__device__ inline void synchronize_row() {
  constexpr int rows = rows_in_block(Threads);
  if constexpr (rows == 1) __syncthreads();
  else if (Row == rows - 1 || threadIdx.x / Threads == Row)  // constants: ptxas reserves the barriers that are named
    asm volatile("bar.sync %0, %1;" ::"n"(Row + 1), "n"(Threads) : "memory");
  else if constexpr (Row < rows - 1) synchronize_row<Threads, Row + 1>();
}
/// Reduces a value over the Threads threads of a row, in a fixed order; all get it, all must call. f is commutative.
template <int Threads, class T, class F>
__device__ inline T row_reduce(T x, const F& f) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
  if constexpr (Threads > 32) {
    __shared__ T of_warp[32];  // of all rows of the block
    const T* const of_row = of_warp + threadIdx.x / Threads * (Threads / 32);
    synchronize_row<Threads>();  // until an earlier call's values have been read
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
    synchronize_row<Threads>();
    x = of_row[0];
#pragma unroll 4
    for (int w = 1; w < Threads / 32; ++w) x = f(x, of_row[w]);
  }
  return x;
}
template <int Threads, class T>
__device__ inline T row_sum(T x) {
  return row_reduce<Threads>(x, [](T a, T b) { return a + b; });
}
template <int Threads, class T>
__device__ inline T row_max(T x) {
  return row_reduce<Threads>(x, [](T a, T b) { return b > a ? b : a; });
}

inline constexpr int long_row_threads = 512;
/// Calls run with the number of threads for rows of this length, as a type, and blocks for all rows.
template <class F>
void for_row_threads(index_t rows, index_t columns, const F& run) {
  const auto with = [&]<int Threads>(std::integral_constant<int, Threads> threads) {
    constexpr auto at_once = static_cast<index_t>(rows_in_block(Threads));
    run(threads, static_cast<unsigned>((rows + at_once - 1) / at_once), Threads * static_cast<int>(at_once));
  };
  if (columns <= 1024) with(std::integral_constant<int, 32>{});
  else with(std::integral_constant<int, long_row_threads>{});
}

/// How rows of Columns elements of types Ts are distributed: one per warp, or per 2 to 32 warps, so that a thread holds
/// at most Held elements of each array in registers.
template <index_t Held, index_t Columns, class... Ts>
struct basic_row_layout {
  static constexpr int widest = vector_width<Ts...>;
  static constexpr int width = Columns % widest == 0 ? widest : 1;  ///< elements of a run
  static constexpr index_t runs = Columns / width;
  static constexpr int threads = [] {
    int n = 32;
    while (n < 1024 && (runs + static_cast<index_t>(n) - 1) / static_cast<index_t>(n) * width > Held) n *= 2;
    return n;
  }();
  static constexpr index_t runs_each = (runs + threads - 1) / threads;
  static constexpr bool held = runs_each * width <= 32;  ///< in registers; longer rows are reread in each pass
  static constexpr int rows_at_once = rows_in_block(threads);
  static constexpr int block = threads * rows_at_once;
  static constexpr int slot_count = held ? static_cast<int>(runs_each) : 1;

  static constexpr unsigned blocks(index_t rows) {
    return static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once);
  }
  /// The first row of this thread.
  static __device__ index_t first_row() {
    return static_cast<index_t>(blockIdx.x) * rows_at_once + (rows_at_once == 1 ? 0 : threadIdx.x / threads);
  }
  /// Calls f(slot, at) for this thread's runs of a row: its run number `slot` begins at element `at`.
  template <class F>
  static __device__ void each(const F& f) {
    const int lane = static_cast<int>(threadIdx.x) % threads;
    if constexpr (held) {
#pragma unroll
      for (int slot = 0; slot < slot_count; ++slot) {
        const int run = slot * threads + lane;
        if (runs % threads == 0 || run < static_cast<int>(runs)) f(slot, run * width);
      }
    } else {
      for (int run = lane; run < static_cast<int>(runs); run += threads) f(0, run * width);
    }
  }
};

/// The columns of rows of shape S, which a kernel's type has.
template <class S>
consteval index_t row_columns() {
  static_assert(S::rank == 0 || !gradus::detail::is_bounded(S::extent_in_type(-1)),
                "softmax, logsumexp, norms, embedding, losses: on a GPU the last axis is not bounded");
  return columns_of<S>;
}

template <index_t Columns, class... Ts>
using row_layout = basic_row_layout<32, Columns, Ts...>;

/// A thread's part of a row, in registers if Layout::held; otherwise each pass reads it again.
template <class Layout, class T>
class held_row {
 public:
  __device__ explicit held_row(const T* row) : row_(row) {
    if constexpr (Layout::held)
      Layout::each([&](int slot, int at) { runs_[slot] = load<Layout::width, true>(row + at, Layout::width); });
  }
  __device__ vector_of<T, Layout::width> run(int slot, int at) const {
    if constexpr (Layout::held) return runs_[slot];
    else return load<Layout::width, true>(row_ + at, Layout::width);
  }
  /// Separates two passes: the second derives its values from the row again. The compiler would keep the first one's,
  /// which need more registers than the row.
  __device__ void forget_derived_values() {
    if constexpr (Layout::held) {
      using word = std::conditional_t<sizeof(runs_[0]) % 4 == 0, std::uint32_t, std::uint16_t>;
#pragma unroll
      for (auto& run : runs_) {
        word words[sizeof run / sizeof(word)];
        memcpy(words, &run, sizeof run);
#pragma unroll
        for (word& one : words)
          if constexpr (sizeof(word) == 4) asm volatile("" : "+r"(one));
          else asm volatile("" : "+h"(one));
        memcpy(static_cast<void*>(&run), words, sizeof run);
      }
    }
  }
  /// The largest element of the row. All threads of the row must call this, and get it.
  template <class C>
  __device__ C largest() const {
    C most = -INFINITY;
    Layout::each([&](int slot, int at) {
      const auto v = run(slot, at);
#pragma unroll
      for (int i = 0; i < Layout::width; ++i)
        if (const C one = static_cast<C>(v.at[i]); one > most) most = one;
    });
    return row_max<Layout::threads>(most);
  }
  /// The sum of e^(x - top) over the row, likewise.
  template <class C>
  __device__ C exp_sum(C top) const {
    C total = 0;
    Layout::each([&](int slot, int at) {
      const auto v = run(slot, at);
#pragma unroll
      for (int i = 0; i < Layout::width; ++i) total += math::exp(static_cast<C>(v.at[i]) - top);
    });
    return row_sum<Layout::threads>(total);
  }

 private:
  const T* row_;
  vector_of<T, Layout::width> runs_[Layout::slot_count];
};

}  // namespace gradus::cuda_kit
