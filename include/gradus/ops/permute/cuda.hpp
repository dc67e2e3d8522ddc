#pragma once
#include "../../cuda/runs.hpp"
#include "permute.hpp"

namespace gradus {

namespace cuda_kit {

/// Where the element of `To` at `offset` lies in `From`, whose axes in the order Order are those of To.
template <class To, class From, index_t Axis, index_t... Order>
__device__ inline index_t permuted_offset(index_t offset) {
  if constexpr (Axis == 0) {
    return 0;
  } else {
    constexpr index_t last = Axis - 1;
    constexpr index_t order[] = {Order...};
    constexpr index_t extent = To::extents[last];
    constexpr index_t stride = From::stride(static_cast<std::ptrdiff_t>(order[last]));
    return offset % extent * stride + permuted_offset<To, From, last, Order...>(offset / extent);
  }
}

/// The last axis stays where it is: runs of it.
template <class T, class To, class From, index_t... Order>
__global__ void __launch_bounds__(block_threads) permute_rows_kernel(T* to, const T* from, bool accumulate) {
  using C = compute_type<T>;
  constexpr index_t columns = columns_of<To>;
  constexpr int width = columns % vector_width<T> == 0 ? vector_width<T> : 1;
  flat_runs<To::size, width>::run([&](auto, index_t at, int) {
    const auto v = load<width, true>(from + permuted_offset<To, From, To::rank, Order...>(at), width);
    if (accumulate) put<width, true>(to + at, true, width, [&](int i) { return static_cast<C>(v.at[i]); });
    else store<width, true>(to + at, v, width);
  });
}

inline constexpr int permute_tile = 32;

/// Rows of the output that are neighbours in the input go through a tile of shared memory with their columns, so that
/// both sides are gone along. `Moved` is the output's axis that is the last one in the input.
template <class T, class To, class From, index_t Moved, index_t... Order>
__global__ void __launch_bounds__(block_threads) permute_tiles_kernel(T* to, const T* from, bool accumulate) {
  using C = compute_type<T>;
  constexpr index_t order[] = {Order...};
  constexpr index_t columns = columns_of<To>, rows = To::extents[Moved];
  constexpr index_t row_stride = To::stride(static_cast<std::ptrdiff_t>(Moved));
  constexpr index_t column_stride = From::stride(static_cast<std::ptrdiff_t>(order[To::rank - 1]));
  constexpr index_t between = row_stride / columns;  // positions of the axes between the two
  constexpr index_t across = (columns + permute_tile - 1) / permute_tile,
                    down = (rows + permute_tile - 1) / permute_tile;
  __shared__ T tile[permute_tile][permute_tile + 1];
  const index_t matrix = blockIdx.x / (across * down);
  const index_t c0 = blockIdx.x % across * permute_tile, r0 = blockIdx.x / across % down * permute_tile;
  const index_t target = matrix / between * rows * row_stride + matrix % between * columns;
  const T* const in = from + permuted_offset<To, From, To::rank, Order...>(target);
  const int lane = static_cast<int>(threadIdx.x) % permute_tile, line = static_cast<int>(threadIdx.x) / permute_tile;
  constexpr int lines = static_cast<int>(block_threads) / permute_tile;
  for (int c = line; c < permute_tile; c += lines)
    if (c0 + c < columns && r0 + lane < rows) tile[c][lane] = in[(c0 + c) * column_stride + r0 + lane];
  __syncthreads();
  for (int r = line; r < permute_tile; r += lines)
    if (c0 + lane < columns && r0 + r < rows)
      put<1, true>(to + target + (r0 + r) * row_stride + c0 + lane, accumulate, 1,
                   [&](int) { return static_cast<C>(tile[lane][r]); });
}

}  // namespace cuda_kit

template <index_t... Order>
struct kernel<op::permute<Order...>, cuda> {
  template <class T, class To, class From>
  static void forward(context<cuda>& ctx, view<T, To, cuda> to, view<const T, From, cuda> from, bool accumulate) {
    constexpr index_t rank = To::rank;
    if constexpr (keeps_last<rank>()) {
      constexpr int width = columns_of<To> % cuda_kit::vector_width<T> == 0 ? cuda_kit::vector_width<T> : 1;
      cuda_kit::launch(ctx, &cuda_kit::permute_rows_kernel<T, To, From, Order...>,
                       cuda_kit::flat_runs<To::size, width>::blocks, cuda_kit::block_threads, to.data(), from.data(),
                       accumulate);
    } else {
      constexpr index_t moved = place_of(rank - 1);
      constexpr index_t tile = cuda_kit::permute_tile;
      constexpr index_t across = (columns_of<To> + tile - 1) / tile, down = (To::extents[moved] + tile - 1) / tile;
      constexpr index_t matrices = To::size / (columns_of<To> * To::extents[moved]);
      cuda_kit::launch(ctx, &cuda_kit::permute_tiles_kernel<T, To, From, moved, Order...>,
                       static_cast<unsigned>(matrices * across * down), cuda_kit::block_threads, to.data(), from.data(),
                       accumulate);
    }
  }

 private:
  static constexpr index_t place_of(index_t axis) { return op::permute<Order...>::place_of(axis); }
  template <index_t Rank>
  static constexpr bool keeps_last() {
    if constexpr (Rank == 0) return true;
    else return place_of(Rank - 1) == Rank - 1;
  }
};

}  // namespace gradus
