#pragma once
// Runs: what a thread takes at once, 16 bytes where shapes allow it. Kernels over elements that have nothing to do with
// each other are a body for one run.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../core/shape_algebra.hpp"
#include "../tensor/view.hpp"
#include "launch.hpp"

namespace gradus::cuda_kit {

/// Counts up to N elements: 32 bits where that is enough, because 64-bit index arithmetic is slow on a GPU.
template <index_t N>
using count_for = std::conditional_t<(N < (index_t{1} << 31)), std::uint32_t, std::uint64_t>;

/// N elements that are read or written at once.
template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) vector_of {
  T at[N];
};

/// Elements of the given types that a thread takes at once: as many as make 16 bytes of the largest type.
template <class... Ts>
inline constexpr int vector_width = [] {
  std::size_t largest = 1;
  ((largest = sizeof(Ts) > largest ? sizeof(Ts) : largest), ...);
  return static_cast<int>(16 / largest);
}();

namespace detail {
// As one access: of a struct of elements the compiler may make several.
template <std::size_t Bytes>
using word_of = std::conditional_t<
    Bytes % 16 == 0, uint4,
    std::conditional_t<Bytes % 8 == 0, uint2,
                       std::conditional_t<Bytes % 4 == 0, std::uint32_t,
                                          std::conditional_t<Bytes % 2 == 0, std::uint16_t, std::uint8_t>>>>;
// As one instruction: the compiler makes several stores of what it has computed element by element.
__device__ inline void store_word(uint4* to, uint4 w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(w.x), "r"(w.y),
               "r"(w.z), "r"(w.w)
               : "memory");
}
__device__ inline void store_word(uint2* to, uint2 w) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(w.x), "r"(w.y) : "memory");
}
template <class W>
__device__ inline void store_word(W* to, W w) {
  *to = w;
}
}  // namespace detail

/// N elements from an address aligned for them; only the first `count` when `Whole` is false.
template <int N, bool Whole, class T>
__device__ inline vector_of<T, N> load(const T* from, int count) {
  vector_of<T, N> v;
  if constexpr (Whole) {
    using word = detail::word_of<sizeof v>;
    word words[sizeof v / sizeof(word)];
#pragma unroll
    for (std::size_t k = 0; k < sizeof v / sizeof(word); ++k) words[k] = reinterpret_cast<const word*>(from)[k];
    memcpy(static_cast<void*>(&v), words, sizeof v);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v.at[i] = i < count ? from[i] : T{};
  }
  return v;
}
/// To global memory.
template <int N, bool Whole, class T>
__device__ inline void store(T* to, const vector_of<T, N>& v, int count) {
  if constexpr (Whole) {
    using word = detail::word_of<sizeof v>;
    word words[sizeof v / sizeof(word)];
    memcpy(words, &v, sizeof v);
#pragma unroll
    for (std::size_t k = 0; k < sizeof v / sizeof(word); ++k)
      detail::store_word(reinterpret_cast<word*>(to) + k, words[k]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) to[i] = v.at[i];
  }
}
/// to[i] (+)= from(i) in global memory, rounded once.
template <int N, bool Whole, class T, class F>
__device__ inline void put(T* to, bool accumulate, int count, const F& from) {
  using C = decltype(from(0));
  vector_of<T, N> v;
  if (accumulate) {
    v = load<N, Whole>(to, count);
#pragma unroll
    for (int i = 0; i < N; ++i) v.at[i] = convert_element<T>(static_cast<C>(v.at[i]) + from(i));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v.at[i] = convert_element<T>(from(i));
  }
  store<N, Whole>(to, v, count);
}

/// Size elements in runs of Width, one a thread.
template <index_t Size, int Width>
struct flat_runs {
  using count = count_for<Size + Width * block_threads>;
  static constexpr index_t runs = (Size + Width - 1) / Width;
  static constexpr unsigned blocks = blocks_for(runs);

  /// Calls body(whole, at, n) for this thread's run of n elements from `at` on; `whole` says, as a type, that n is
  /// Width.
  template <class Body>
  static __device__ void run(const Body& body) {
    const count at = (static_cast<count>(blockIdx.x) * block_threads + threadIdx.x) * Width;
    if (at >= Size) return;
    if (Size % Width == 0 || at + Width <= Size) body(std::true_type{}, at, Width);
    else body(std::false_type{}, at, static_cast<int>(Size - at));
  }
};

/// Where row `row` of an output of shape Out starts in an operand of shape In that is broadcast to it; every extent is
/// a constant to the compiler, so the divisions become multiplications.
template <class In, class Out, index_t Axis = 1, index_t Stride = columns_of<In>, class Count>
__device__ inline Count operand_row_offset(Count row) {
  if constexpr (Axis >= Out::rank) {
    return 0;
  } else {
    constexpr Count extent = gradus::detail::padded_extent<Out>(Axis);
    constexpr index_t have = gradus::detail::padded_extent<In>(Axis);
    const Count rest = operand_row_offset<In, Out, Axis + 1, Stride * have>(static_cast<Count>(row / extent));
    if constexpr (have != 1) return rest + (row % extent) * static_cast<Count>(Stride);
    else return rest;
  }
}

/// How an output of shape Out is walked over operands of shapes Ins, one run of elements a thread. Without
/// broadcasting, or with one-element operands only, the output is one long row; otherwise a run stays within a row.
template <class Out, int Widest, class... Ins>
struct walk
    : flat_runs<Out::size,
                ((std::is_same_v<Ins, Out> || Ins::size == 1) && ...) || columns_of<Out> % Widest == 0 ? Widest : 1> {
  static constexpr bool flat = ((std::is_same_v<Ins, Out> || Ins::size == 1) && ...);
  static constexpr index_t columns = flat ? Out::size : columns_of<Out>;
  static constexpr int width = flat || columns % Widest == 0 ? Widest : 1;
  using count = typename flat_runs<Out::size, width>::count;

  /// Whether the operand is read along the row; otherwise it is constant along it.
  template <class In>
  static constexpr bool moves = flat ? In::size != 1 : columns_of<In> == columns_of<Out> && columns_of<In> != 1;

  /// Position in the operand of the output's element `at`.
  template <class In>
  static __device__ count position(count at) {
    if constexpr (In::size == 1) return 0;
    else if constexpr (flat) return at;
    else {
      const count start = operand_row_offset<In, Out>(static_cast<count>(at / static_cast<count>(columns)));
      if constexpr (moves<In>) return start + at % static_cast<count>(columns);
      else return start;
    }
  }
};

/// A run of an operand's elements; one element repeated where the operand does not move.
template <class Walk, bool Whole, class S, class In>
__device__ inline vector_of<S, Walk::width> operand_run(const view<const S, In, cuda>& in, typename Walk::count at,
                                                        int n) {
  const S* from = in.data() + Walk::template position<In>(at);
  if constexpr (Walk::template moves<In>) {
    return load<Walk::width, Whole>(from, n);
  } else {
    vector_of<S, Walk::width> run;
    const S value = *from;
#pragma unroll
    for (int i = 0; i < Walk::width; ++i) run.at[i] = value;
    return run;
  }
}

}  // namespace gradus::cuda_kit
