#pragma once
// Runs: what a thread takes at once, 16 bytes where shapes allow it. Kernels over elements that have nothing to do with
// each other are a body for one run. Extents are their arguments, so that one kernel serves every shape.

#include <cuda_runtime.h>

#include <bit>
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

/// Counts N elements: in 32 bits where that is enough, threads behind the last element included, because 64-bit index
/// arithmetic is slow on a GPU.
template <index_t N>
using count_for = std::conditional_t<(N + 16 * block_threads < (index_t{1} << 31)), std::uint32_t, std::uint64_t>;

/// A number that a kernel divides by, and learns only when it starts: a quotient is a product and a shift (Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication", 1994). Of dividends below half of Count's range.
template <class Count>
struct divisor {
  static constexpr int bits = sizeof(Count) * 8;
  Count value = 1, factor = Count{1} << (bits - 1);  ///< the factor is 2^(bits - 1 + shift) / value, rounded up
  int shift = 0;

  divisor() = default;
  constexpr explicit divisor(Count by) : value(by), factor(by == 1 ? 1 : 0), shift(std::bit_width(by - 1)) {
    Count rest = 1 % by;
    for (int bit = 0; bit < bits - 1 + shift; ++bit) {
      const bool fits = rest >= by - rest;
      factor = factor * 2 + (fits ? 1 : 0);
      rest = fits ? rest - (by - rest) : rest * 2;
    }
    if (rest != 0) ++factor;
  }
  __device__ Count quotient(Count n) const {
    if constexpr (bits == 32) return static_cast<Count>(static_cast<std::uint64_t>(n) * factor >> (bits - 1 + shift));
    else return __umul64hi(n * 2, factor) >> shift;
  }
  /// Leaves the quotient in `n`, and returns the remainder.
  __device__ Count divide(Count& n) const {
    const Count q = quotient(n), rest = n - q * value;
    n = q;
    return rest;
  }
};

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

/// Blocks for `size` elements in runs of `width`, one a thread.
constexpr unsigned flat_blocks(index_t size, int width) {
  const auto run = static_cast<index_t>(width);
  return blocks_for((size + run - 1) / run);
}
/// Calls body(whole, at, n) for this thread's run of n elements from `at` on; `whole` says, as a type, that n is Width.
template <int Width, class Count, class Body>
__device__ inline void flat_run(Count size, const Body& body) {
  const Count at = (static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x) * Width;
  if (at >= size) return;
  if (Width == 1 || at + Width <= size) body(std::true_type{}, at, Width);
  else body(std::false_type{}, at, static_cast<int>(size - at));
}

/// How a kernel goes through the `size` elements of an output in runs of Width, and finds where they lie in its
/// operands: in rows, and Axes axes outside of them, whose extents it is told from the inside.
template <class Count, int Width, int Axes>
struct walk {
  using count = Count;
  static constexpr int width = Width, axes = Axes;
  Count size;
  divisor<Count> extent[Axes + 1];
};
/// What such a kernel knows of an operand. One that does not move along the rows is constant there.
template <class S, class Walk, bool Moves>
struct walked_operand {
  using value = S;
  static constexpr bool moves = Moves;
  const S* data;
  typename Walk::count stride[Walk::axes + 1];  ///< along a row: 1 or 0

  __device__ typename Walk::count position(const Walk& by, typename Walk::count at) const {
    if constexpr (Walk::axes == 0) return Moves ? at : 0;
    else {
      const auto column = by.extent[0].divide(at);
      typename Walk::count start = Moves ? column : 0;
#pragma unroll
      for (int axis = 1; axis < Walk::axes; ++axis) start += by.extent[axis].divide(at) * stride[axis];
      return start + at * stride[Walk::axes];
    }
  }
  /// N elements, those that belong to the output's from `at` on.
  template <int N>
  __device__ vector_of<S, N> run(const Walk& by, typename Walk::count at) const {
    const S* const from = data + position(by, at);
    if constexpr (Moves) return load<N, true>(from, N);
    vector_of<S, N> repeated;
    const S one = *from;
#pragma unroll
    for (int i = 0; i < N; ++i) repeated.at[i] = one;
    return repeated;
  }
};
/// Calls body(N, at) for this thread's run of the output, N elements from `at` on, and N is a type. A run within a row
/// is whole; what one long row has behind its last whole run goes element by element.
template <class Walk, class Body>
__device__ inline void walk_run(const Walk& by, const Body& body) {
  using count = typename Walk::count;
  count at = (static_cast<count>(blockIdx.x) * block_threads + threadIdx.x) * Walk::width;
  if (at >= by.size) return;
  if constexpr (Walk::axes != 0 || Walk::width == 1) {
    body(std::integral_constant<int, Walk::width>{}, at);
  } else if (at + Walk::width <= by.size) {
    body(std::integral_constant<int, Walk::width>{}, at);
  } else {
#pragma unroll 1
    for (; at < by.size; ++at) body(std::integral_constant<int, 1>{}, at);
  }
}

/// How an output of shape Out is walked over operands of shapes Ins that broadcast. Neighbouring axes that each operand
/// has, or has not, are one: without broadcasting, or with one-element operands only, the output is one long row.
/// Otherwise a run stays within a row. An operand that has an axis of extent 1 where the output has one follows it, so
/// that a batch of one is walked as any other.
template <class Out, int Widest, class... Ins>
class broadcast_walk {
  static constexpr index_t operands = sizeof...(Ins);
  struct list {
    int count = 0;
    index_t extent[Out::rank + 1] = {}, stride[Out::rank + 1][operands] = {};
  };
  static constexpr list merge() {
    list l;
    bool had[operands] = {};
    index_t size[operands];
    for (index_t& one : size) one = 1;
    for (index_t i = 0; i != Out::rank; ++i) {
      const index_t e = gradus::detail::padded_extent<Out>(i);
      const auto follows = [&](index_t rank, index_t extent) { return i < rank && extent == e; };
      const bool has[] = {follows(Ins::rank, gradus::detail::padded_extent<Ins>(i))...};
      if (l.count == 0 && e == 1) continue;
      bool alike = l.count != 0;
      for (index_t k = 0; k != operands; ++k) alike = alike && has[k] == had[k];
      if (!alike) l.extent[l.count++] = 1;
      l.extent[l.count - 1] *= e;
      for (index_t k = 0; k != operands; ++k) {
        had[k] = has[k];
        if (!alike) l.stride[l.count - 1][k] = has[k] ? size[k] : 0;
        if (has[k]) size[k] *= e;
      }
    }
    if (l.count == 0) l = {1, {1}, {{(Ins::rank == Out::rank ? index_t{1} : index_t{0})...}}};
    return l;
  }
  static constexpr list merged = merge();
  static constexpr int axes = merged.count - 1;

 public:
  using type = walk<count_for<Out::size>, axes == 0 || merged.extent[0] % Widest == 0 ? Widest : 1, axes>;
  static constexpr unsigned blocks = flat_blocks(Out::size, type::width);
  static constexpr type all() {
    type w{Out::size, {}};
    for (int a = 0; a <= axes; ++a) w.extent[a] = divisor<typename type::count>(merged.extent[a]);
    return w;
  }
  /// Operand number K.
  template <index_t K, class S>
  static constexpr auto operand(const S* data) {
    walked_operand<S, type, merged.stride[0][K] != 0> of{data, {}};
    for (int a = 0; a <= axes; ++a) of.stride[a] = merged.stride[a][K];
    return of;
  }
};

}  // namespace gradus::cuda_kit
