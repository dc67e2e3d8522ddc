#pragma once
// The CUDA kernels of gather, index_select, scatter_add and one_hot.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "../../gpu/runs.hpp"
#include "cuda_segments.hpp"
#include "gather.hpp"

namespace gradus {

namespace cuda_kit {

/// An index out of range yields NaN, or 0 for integers, because a GPU cannot throw.
template <class T, int Width, class Id>
__global__ void __launch_bounds__(block_threads)
    copy_indexed_kernel(T* y, const T* x, const Id* indices, index_t size, divisor<std::uint64_t> inner,
                        divisor<std::uint64_t> count, index_t rows, bool each) {
  const index_t at = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) * Width;
  if (at >= size) return;
  std::uint64_t block = at;
  const auto column = inner.divide(block), entry = count.divide(block);
  const auto index = static_cast<long long>(indices[each ? at : entry]);
  vector_of<T, Width> v;
  if (index >= 0 && index < static_cast<long long>(rows)) {
    v = load<Width, true>(x + (block * rows + static_cast<index_t>(index)) * inner.value + column, Width);
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      if constexpr (is_floating<T>) v.at[i] = static_cast<T>(compute_type<T>(NAN));
      else v.at[i] = T{};
    }
  }
  store<Width, true>(y + at, v, Width);
}

template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    one_hot_kernel(T* y, const Id* indices, index_t size, divisor<std::uint64_t> classes) {
  const index_t at = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= size) return;
  std::uint64_t row = at;
  const auto column = static_cast<long long>(classes.divide(row));
  y[at] = static_cast<T>(compute_type<T>(static_cast<long long>(indices[row]) == column ? 1 : 0));
}

}  // namespace cuda_kit

/// The sums of backward: see cuda_segments.hpp.
template <>
struct kernel<op::move_indexed, cuda> {
  template <class T, class Id>
  static void forward(context<cuda>& ctx, T* y, const T* x, const Id* indices, indexed_move move) {
    using divisor = cuda_kit::divisor<std::uint64_t>;
    constexpr int width = cuda_kit::vector_width<T>;
    const bool whole = !move.each && move.inner % width == 0;
    const index_t size = move.outer * move.count * move.inner;
    launch(ctx, whole ? &cuda_kit::copy_indexed_kernel<T, width, Id> : &cuda_kit::copy_indexed_kernel<T, 1, Id>,
           cuda_kit::flat_blocks(size, whole ? width : 1), cuda_kit::block_threads, y, x, indices, size,
           divisor(move.inner), divisor(move.count), move.rows, move.each);
  }
  template <class C, class T, class Id>
  static void backward(context<cuda>& ctx, C* to, const T* from, const Id* indices, indexed_move move) {
    constexpr int width = cuda_kit::vector_width<C, T>;
    if (!move.each && move.inner % width == 0) cuda_kit::add_by_index<width>(ctx, to, from, indices, move);
    else cuda_kit::add_by_index<1>(ctx, to, from, indices, move);
  }
};

template <>
struct kernel<op::check_indices, cuda> {
  template <class Id>
  static void forward(std::string_view, const Id*, index_t, index_t) {}
};

template <index_t Classes, class T>
struct kernel<op::one_hot<Classes, T>, cuda> {
  template <class Id>
  static void forward(context<cuda>& ctx, T* y, const Id* indices, index_t count) {
    const index_t size = count * Classes;
    launch(ctx, &cuda_kit::one_hot_kernel<T, Id>, cuda_kit::blocks_for(size), cuda_kit::block_threads, y, indices, size,
           cuda_kit::divisor<std::uint64_t>(Classes));
  }
};

}  // namespace gradus
