#pragma once
// The CUDA kernel of sort, argsort and topk: stable sorts of all elements by value, then by row.

#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "../../core/dtype.hpp"
#include "../../core/error.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/sort.hpp"
#include "../../gpu/workspace.hpp"
#include "sort.hpp"

namespace gradus {

namespace cuda_kit {

/// Words of 32 bits that order elements of type T.
template <class T>
inline constexpr int order_words = sizeof(compute_type<T>) == 8 ? 2 : 1;

/// Unsigned numbers in the order of the elements; equal for 0 and -0, largest for NaN. Fills `order_words` words.
template <class T>
__device__ inline std::uint64_t ordered_bits(T x) {
  constexpr int sign = order_words<T> * 32 - 1;
  if constexpr (is_floating<T>) {
    using C = compute_type<T>;
    using word = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;
    const C v = static_cast<C>(x) + C(0);
    if (v != v) return static_cast<word>(-1);
    const auto bits = std::bit_cast<word>(v);
    return (bits >> sign) != 0 ? static_cast<word>(~bits) : bits | word{1} << sign;
  } else if constexpr (std::is_signed_v<T>) {
    const std::uint64_t bits = static_cast<std::uint64_t>(static_cast<long long>(x)) ^ std::uint64_t{1} << sign;
    return order_words<T> == 2 ? bits : bits & 0xFFFFFFFFu;
  } else {
    return static_cast<std::uint64_t>(x);
  }
}

/// Keys of the elements at `positions`; the first sort (word 0) writes the positions 0, 1, ... here.
template <class T>
__global__ void __launch_bounds__(block_threads)
    element_keys_kernel(std::uint32_t* keys, std::uint32_t* positions, const T* x, std::uint32_t count, int word,
                        bool descending) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= count) return;
  if (word == 0) positions[i] = i;
  const auto key = static_cast<std::uint32_t>(ordered_bits(x[positions[i]]) >> 32 * word);
  keys[i] = descending ? ~key : key;
}
template <class = void>
__global__ void __launch_bounds__(block_threads) row_keys_kernel(std::uint32_t* keys, const std::uint32_t* positions,
                                                                 std::uint32_t count, divisor<std::uint32_t> columns) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i < count) keys[i] = columns.quotient(positions[i]);
}
/// The places within their rows of the first `taken` of each row's sorted positions.
template <class = void>
__global__ void __launch_bounds__(block_threads)
    first_places_kernel(std::int32_t* places, const std::uint32_t* positions, std::uint32_t size,
                        divisor<std::uint32_t> taken, std::uint32_t columns) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= size) return;
  std::uint32_t row = i;
  const std::uint32_t at = taken.divide(row);
  places[i] = static_cast<std::int32_t>(positions[row * columns + at] - row * columns);
}

}  // namespace cuda_kit

template <>
struct kernel<op::sorted_places, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, std::int32_t* places, const T* x, index_t rows, index_t columns,
                      index_t taken, bool descending) {
    using namespace cuda_kit;
    if (rows * columns >= index_t{1} << 31)
      throw error("sort, argsort, topk: a GPU sorts fewer than 2^31 elements per call");
    const auto count = static_cast<std::uint32_t>(rows * columns);
    const auto divide_by = [](index_t n) { return divisor<std::uint32_t>(static_cast<std::uint32_t>(n)); };
    // One allocation: keys and positions before and after sorting, and the sort's scratch.
    const std::size_t list = (count * sizeof(std::uint32_t) + 255) / 256 * 256;
    const std::size_t room = sort_room(ctx, static_cast<int>(count), 32);
    auto* const memory = scratch<unsigned char>(ctx, 4 * list + room);
    const auto part = [&](int i) { return reinterpret_cast<std::uint32_t*>(memory + i * list); };
    std::uint32_t *const keys = part(0), *from = part(1), *to = part(2);
    const auto sort = [&](int bits) {
      sort_pairs(ctx, memory + 4 * list, room, keys, part(3), from, to, static_cast<int>(count), bits);
      std::swap(from, to);
    };
    for (int word = 0; word < order_words<T>; ++word) {
      launch(ctx, &element_keys_kernel<T>, blocks_for(count), block_threads, keys, from, x, count, word, descending);
      sort(32);
    }
    if (rows > 1) {
      launch(ctx, &row_keys_kernel<>, blocks_for(count), block_threads, keys, from, count, divide_by(columns));
      sort(std::bit_width(rows - 1));
    }
    const auto size = static_cast<std::uint32_t>(rows * taken);
    launch(ctx, &first_places_kernel<>, blocks_for(size), block_threads, places, from, size, divide_by(taken),
           static_cast<std::uint32_t>(columns));
  }
};

}  // namespace gradus
