#pragma once
// The CUDA kernels of permute.

#include <type_traits>

#include "../../gpu/runs.hpp"
#include "permute.hpp"

namespace gradus {

namespace cuda_kit {

/// Maps an output of shape To to an operand of shape From, whose axes in the order Order it has.
template <class To, class From, int Width, index_t... Order>
struct permuted_walk {
  static constexpr int axes = sizeof...(Order) == 0 ? 0 : static_cast<int>(sizeof...(Order)) - 1;
  using count = count_for<To::size>;
  using type = walk<count, Width, axes>;
  static constexpr type all(const extents_of<To>& to) {
    type w{static_cast<count>(to.size), {}};
    for (index_t a = 0; a != sizeof...(Order); ++a)
      w.extent[a] = divisor<count>(static_cast<count>(gradus::detail::padded_extent(to, a)));
    return w;
  }
  template <bool Moves, class T>
  static constexpr auto operand(const T* data, const extents_of<From>& from) {
    walked_operand<T, type, Moves> of{data, {}};
    index_t axis = sizeof...(Order);
    ((of.stride[--axis] = static_cast<count>(from.stride(static_cast<std::ptrdiff_t>(Order)))), ...);
    return of;
  }
};

/// Copies runs of a last axis that stays last.
template <class T, class Walk>
__global__ void __launch_bounds__(block_threads)
    permute_rows_kernel(Walk walk, T* to, walked_operand<T, Walk, true> from, bool accumulate) {
  using C = compute_type<T>;
  walk_run(walk, [&](auto n, auto at) {
    const auto v = from.template run<n>(walk, at);
    if (accumulate) put<n, true>(to + at, true, n, [&](int i) { return static_cast<C>(v.at[i]); });
    else store<n, true>(to + at, v, n);
  });
}

inline constexpr int permute_tile = 32;

/// The matrices of a permutation that moves the last axis: their columns are the output's last axis, their rows the
/// input's. `between` counts the positions along the output's axes between them.
template <class Count>
struct permuted_matrices {
  Count columns, rows, row_stride, column_stride;
  divisor<Count> across, down, between;  ///< tiles, tiles, positions
};

/// Transposes tiles in shared memory, so that both sides are accessed along their rows.
template <class T, class Walk>
__global__ void __launch_bounds__(block_threads)
    permute_tiles_kernel(Walk walk, T* to, walked_operand<T, Walk, false> from, bool accumulate,
                         permuted_matrices<typename Walk::count> of) {
  using C = compute_type<T>;
  using count = typename Walk::count;
  __shared__ T tile[permute_tile][permute_tile + 1];
  count matrix = blockIdx.x;
  const count c0 = of.across.divide(matrix) * permute_tile, r0 = of.down.divide(matrix) * permute_tile;
  const count inside = of.between.divide(matrix) * of.columns;
  const count target = matrix * of.rows * of.row_stride + inside;
  const T* const in = from.data + from.position(walk, target);
  const unsigned lane = threadIdx.x % permute_tile, line = threadIdx.x / permute_tile;
  constexpr unsigned lines = block_threads / permute_tile;
  for (unsigned c = line; c < permute_tile; c += lines)
    if (c0 + c < of.columns && r0 + lane < of.rows) tile[c][lane] = in[(c0 + c) * of.column_stride + r0 + lane];
  __syncthreads();
  for (unsigned r = line; r < permute_tile; r += lines)
    if (c0 + lane < of.columns && r0 + r < of.rows)
      put<1, true>(to + target + (r0 + r) * of.row_stride + c0 + lane, accumulate, 1,
                   [&](int) { return static_cast<C>(tile[lane][r]); });
}

}  // namespace cuda_kit

template <index_t... Order>
struct kernel<op::permute<Order...>, cuda> {
  template <class T, class To, class From>
  static void forward(context<cuda>& ctx, view<T, To, cuda> to, view<const T, From, cuda> from, bool accumulate) {
    using namespace cuda_kit;
    constexpr index_t rank = To::rank;
    const auto& extents = to.extents();
    if constexpr (keeps_last<rank>()) {
      const auto run = [&](auto width) {
        using walk = permuted_walk<To, From, decltype(width)::value, Order...>;
        launch(ctx, &permute_rows_kernel<T, typename walk::type>, flat_blocks(extents.size, walk::type::width),
               block_threads, walk::all(extents), to.data(), walk::template operand<true>(from.data(), from.extents()),
               accumulate);
      };
      constexpr int widest = vector_width<T>;
      constexpr bool bounded = rank > 0 && gradus::detail::is_bounded(gradus::detail::padded_in_type<To>(0));
      if constexpr (!bounded) run(std::integral_constant < int, columns_of<To> % widest == 0 ? widest : 1 > {});
      else if (columns_in(extents) % widest == 0) run(std::integral_constant<int, widest>{});
      else run(std::integral_constant<int, 1>{});
    } else {
      using walk = permuted_walk<To, From, 1, Order...>;
      using count = typename walk::count;
      constexpr index_t order[] = {Order...}, moved = place_of(rank - 1);
      const index_t columns = columns_in(extents), extent = extents.extents[moved];
      const index_t apart = extents.stride(static_cast<std::ptrdiff_t>(moved));
      const index_t across = (columns + permute_tile - 1) / permute_tile;
      const index_t down = (extent + permute_tile - 1) / permute_tile;
      const auto counted = [](index_t n) { return static_cast<count>(n); };
      const auto by = [](index_t n) { return divisor<count>(static_cast<count>(n)); };
      launch(ctx, &permute_tiles_kernel<T, typename walk::type>,
             static_cast<unsigned>(extents.size / (columns * extent) * across * down), block_threads,
             walk::all(extents), to.data(), walk::template operand<false>(from.data(), from.extents()), accumulate,
             {counted(columns), counted(extent), counted(apart),
              counted(from.extents().stride(static_cast<std::ptrdiff_t>(order[rank - 1]))), by(across), by(down),
              by(apart / columns)});
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
