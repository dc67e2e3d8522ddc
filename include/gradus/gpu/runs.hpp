#pragma once
// Runs: the elements that a thread loads at once, up to 16 bytes. Extents are arguments: one kernel serves every shape.

#include <cuda_runtime.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../core/shape_algebra.hpp"
#include "../tensor/view.hpp"
#include "launch.hpp"

namespace gradus::cuda_kit {

/// The index type for N elements: 32 bits if they suffice, because 64-bit index arithmetic is slow on a GPU.
template <index_t N>
using count_for = std::conditional_t<(N + 16 * block_threads < (index_t{1} << 31)), std::uint32_t, std::uint64_t>;

/// A divisor known at launch: divides by a product and a shift (Granlund and Montgomery, "Division by Invariant
/// Integers using Multiplication", 1994). Dividends must be below half of Count's range.
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
  /// Replaces `n` by the quotient; returns the remainder.
  __device__ Count divide(Count& n) const {
    const Count q = quotient(n), rest = n - q * value;
    n = q;
    return rest;
  }
};

/// N adjacent elements, loaded and stored at once.
template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) vector_of {
  T at[N];
};

/// Elements per thread: those that fill 16 bytes of the largest given type.
template <class... Ts>
inline constexpr int vector_width = [] {
  std::size_t largest = 1;
  ((largest = sizeof(Ts) > largest ? sizeof(Ts) : largest), ...);
  return static_cast<int>(16 / largest);
}();

namespace detail {
// One load: the compiler may split a load of a struct.
template <std::size_t Bytes>
using word_of = std::conditional_t<
    Bytes % 16 == 0, uint4,
    std::conditional_t<Bytes % 8 == 0, uint2,
                       std::conditional_t<Bytes % 4 == 0, std::uint32_t,
                                          std::conditional_t<Bytes % 2 == 0, std::uint16_t, std::uint8_t>>>>;
// One store: the compiler would split a struct that it computes element by element.
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

/// Loads N elements from an aligned address, or the first `count` if not Whole.
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
/// Stores to global memory.
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

/// Blocks for `size` elements, one run of `width` per thread.
constexpr unsigned flat_blocks(index_t size, int width) {
  const auto run = static_cast<index_t>(width);
  return blocks_for((size + run - 1) / run);
}
/// Calls body(whole, at, n) for this thread's run of n elements from `at` on; the type `whole` is true if n is Width.
template <int Width, class Count, class Body>
__device__ inline void flat_run(Count size, const Body& body) {
  const Count at = (static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x) * Width;
  if (at >= size) return;
  if (Width == 1 || at + Width <= size) body(std::true_type{}, at, Width);
  else body(std::false_type{}, at, static_cast<int>(size - at));
}

/// How a kernel walks the `size` elements of an output in runs of Width: rows, and Axes outer axes whose extents are
/// arguments, innermost first; and where the elements are in its operands.
template <class Count, int Width, int Axes>
struct walk {
  using count = Count;
  static constexpr int width = Width, axes = Axes;
  Count size;
  divisor<Count> extent[Axes + 1];
};
/// One operand of such a kernel. An operand that does not move is constant along a row.
template <class S, class Walk, bool Moves>
struct walked_operand {
  using value = S;
  static constexpr bool moves = Moves;
  const S* data;
  typename Walk::count stride[Walk::axes + 1];  ///< in a row: 1 or 0

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
  /// N elements of the operand, for the output's elements from `at` on.
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
/// Calls body(N, at) for this thread's run of the output, N elements from `at` on; N is a type. Runs in rows are whole;
/// the rest of a single long row goes element by element.
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

/// The largest extents of tensors of shape S.
template <class S>
constexpr extents_of<S> largest_extents() {
  return extents_from<S>([] { return S::extents; });
}

/// The axes along which an output of shape Out and broadcast operands of shapes Ins are walked, innermost first. Merges
/// adjacent axes that broadcast the same way, by the shapes' types: without broadcasting, or with one-element operands
/// only, the output is one row. An operand's axis of extent 1 does not count as broadcast if the output's is 1, too.
template <class Out, class... Ins>
struct walked_axes {
  int count = 0;
  index_t factor = 1;  ///< divides the innermost extent in all tensors of these shapes
  index_t extent[Out::rank + 1] = {}, stride[Out::rank + 1][sizeof...(Ins)] = {};

  constexpr walked_axes(const extents_of<Out>& out, const extents_of<Ins>&... in) {
    constexpr index_t operands = sizeof...(Ins);
    bool had[operands] = {};
    index_t size[operands];
    for (index_t& one : size) one = 1;
    for (index_t i = 0; i != Out::rank; ++i) {
      const index_t in_type = gradus::detail::padded_in_type<Out>(i), e = gradus::detail::padded_extent(out, i);
      const auto follows = [&](index_t rank, index_t of_operand) { return i < rank && of_operand == in_type; };
      const bool has[] = {follows(Ins::rank, gradus::detail::padded_in_type<Ins>(i))...};
      if (count == 0 && in_type == 1) continue;
      bool alike = count != 0;
      for (index_t k = 0; k != operands; ++k) alike = alike && has[k] == had[k];
      if (!alike) extent[count++] = 1;
      extent[count - 1] *= e;
      if (count == 1 && !gradus::detail::is_bounded(in_type)) factor *= e;
      for (index_t k = 0; k != operands; ++k) {
        had[k] = has[k];
        if (!alike) stride[count - 1][k] = has[k] ? size[k] : 0;
        if (has[k]) size[k] *= e;
      }
    }
    static_cast<void>((in.rank + ... + 0));  // without axes, extents are not read
    if (count != 0) return;
    count = 1;
    extent[0] = 1;
    index_t k = 0;
    ((stride[0][k++] = Ins::rank == Out::rank ? 1 : 0), ...);
  }
};
/// The walked axes of the largest tensors.
template <class Out, class... Ins>
inline constexpr walked_axes<Out, Ins...> most_axes{largest_extents<Out>(), largest_extents<Ins>()...};

/// How to walk an output of shape Out over operands of shapes Ins in runs of Width, which stay within a row.
template <int Width, class Out, class... Ins>
class broadcast_walk {
  static constexpr auto& most = most_axes<Out, Ins...>;
  static constexpr int axes = most.count - 1;
  const walked_axes<Out, Ins...>& there_;
  index_t size_;

 public:
  using type = walk<count_for<Out::size>, Width, axes>;
  constexpr broadcast_walk(const walked_axes<Out, Ins...>& there, index_t size) : there_(there), size_(size) {}
  constexpr unsigned blocks() const { return flat_blocks(size_, Width); }
  constexpr type all() const {
    using count = typename type::count;
    type w{static_cast<count>(size_), {}};
    for (int a = 0; a <= axes; ++a) w.extent[a] = divisor<count>(static_cast<count>(there_.extent[a]));
    return w;
  }
  /// Operand number K.
  template <index_t K, class S>
  constexpr auto operand(const S* data) const {
    walked_operand<S, type, most.stride[0][K] != 0> of{data, {}};
    for (int a = 0; a <= axes; ++a) of.stride[a] = static_cast<typename type::count>(there_.stride[a][K]);
    return of;
  }
};

template <int Width, class Out, class... Ins, class Launch, class... Ts, std::size_t... K>
void launch_walk(const Launch& launch, const walked_axes<Out, Ins...>& axes, index_t size, std::index_sequence<K...>,
                 const Ts*... data) {
  const broadcast_walk<Width, Out, Ins...> walk(axes, size);
  launch(walk.blocks(), walk.all(), walk.template operand<K>(data)...);
}
/// Calls launch(blocks, walk, operands...) for an output with these extents over operands: in runs of Widest, or of one
/// element if rows do not consist of whole runs. Without lambdas, in which nvcc expands packs of types wrongly.
template <int Widest, class Launch, class Out, class... Ts, class... Ins>
void with_walk(const Launch& launch, const Out& out, const view<Ts, Ins, cuda>&... in) {
  using out_shape = type_of_extents<Out>;
  constexpr auto& most = most_axes<out_shape, Ins...>;
  constexpr bool always_wide = most.count == 1 || most.factor % Widest == 0;
  constexpr int known = always_wide ? Widest : 1;
  constexpr std::index_sequence_for<Ins...> all;
  if constexpr (!Out::bounded) {
    launch_walk<known>(launch, most, out.size, all, in.data()...);
  } else {
    const walked_axes<out_shape, Ins...> there(out, in.extents()...);
    if constexpr (!always_wide && most.factor != most.extent[0])
      if (there.extent[0] % Widest == 0) return launch_walk<Widest>(launch, there, out.size, all, in.data()...);
    launch_walk<known>(launch, there, out.size, all, in.data()...);
  }
}

}  // namespace gradus::cuda_kit
