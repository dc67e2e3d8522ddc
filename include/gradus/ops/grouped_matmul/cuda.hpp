#pragma once
// The CUDA kernels of grouped_matmul. One launch computes the tiles of all groups: a block finds its group and rows by
// the offsets, which the host does not read.

#include <string>
#include <type_traits>

#include "../../core/error.hpp"
#include "../../gpu/launch.hpp"
#include "../../precision/policy.hpp"
#include "../../precision/promotion.hpp"
#include "cuda_tiles.hpp"
#include "grouped_matmul.hpp"

namespace gradus {

namespace cuda_kit {

/// Offset g, clamped to the number of rows.
template <class Id>
__device__ inline index_t offset_of(const Id* offsets, index_t g, index_t rows) {
  const auto at = static_cast<long long>(offsets[g]);
  return at < 0 ? 0 : ::min(static_cast<index_t>(at), rows);
}

/// Some rows of one group, or, if `group` is the number of groups, outside of all; none if `first` is `end`.
struct group_tile {
  index_t group, first, end;
};
/// Tile number `tile` of all tiles of Rows rows: those before the first group, of each group, behind the last one.
template <int Rows, class Id>
__device__ inline group_tile find_tile(const Id* offsets, index_t groups, index_t rows, index_t tile) {
  index_t first = 0;
  for (index_t segment = 0; segment < groups + 2; ++segment) {
    const index_t end = segment <= groups ? ::max(first, offset_of(offsets, segment, rows)) : rows;
    const index_t tiles = (end - first + Rows - 1) / Rows;
    if (tile < tiles) {
      const bool inside = segment > 0 && segment <= groups;
      return {inside ? segment - 1 : groups, first + tile * Rows, ::min(end, first + (tile + 1) * Rows)};
    }
    tile -= tiles;
    first = end;
  }
  return {groups, rows, rows};
}
template <class Tiles>
constexpr unsigned tiles_down(index_t rows) {
  return static_cast<unsigned>((rows + Tiles::rows - 1) / Tiles::rows);
}
template <class Tiles>
constexpr unsigned tiles_across(index_t columns) {
  return static_cast<unsigned>((columns + Tiles::columns - 1) / Tiles::columns);
}

/// c (+)= a op(b[g]) for the rows of each group; c has n columns and a has k. Adjacent blocks have the same rows of a.
template <class Tiles, bool TransposeB, class TC, class TA, class TB, class Id>
__global__ void __launch_bounds__(Tiles::threads)
    multiply_groups_kernel(TC* c, bool accumulate, const TA* a, const TB* b, const Id* offsets, index_t groups,
                           index_t rows, index_t n, index_t k) {
  extern __shared__ __align__(16) unsigned char memory[];
  const unsigned across = tiles_across<Tiles>(n);
  const group_tile tile = find_tile<Tiles::rows>(offsets, groups, rows, blockIdx.x / across);
  if (tile.first == tile.end) return;
  const index_t column = index_t{blockIdx.x % across} * Tiles::columns, left = n - column;
  if (tile.group < groups) {
    Tiles::template run<false, TransposeB>(
        memory, tile_product<TA, TB, TC>{a + tile.first * k, k, b + tile.group * n * k + column * (TransposeB ? k : 1),
                                         TransposeB ? k : n, c + tile.first * n + column, n, tile.end - tile.first,
                                         left, k, accumulate});
  } else if (!accumulate) {
    for (index_t i = threadIdx.x; i < (tile.end - tile.first) * Tiles::columns; i += Tiles::threads)
      if (i % Tiles::columns < left)
        c[(tile.first + i / Tiles::columns) * n + column + i % Tiles::columns] = TC(compute_type<TC>(0));
  }
}

/// c[g] (+)= a^T b of the rows of each group; a has m columns and b has n.
template <class Tiles, class TC, class TA, class TB, class Id>
__global__ void __launch_bounds__(Tiles::threads)
    multiply_within_groups_kernel(TC* c, bool accumulate, const TA* a, const TB* b, const Id* offsets, index_t rows,
                                  index_t m, index_t n) {
  extern __shared__ __align__(16) unsigned char memory[];
  const unsigned across = tiles_across<Tiles>(n), down = tiles_down<Tiles>(m);
  const index_t g = blockIdx.x / across / down, first = offset_of(offsets, g, rows);
  const index_t end = ::max(first, offset_of(offsets, g + 1, rows));
  const index_t row = index_t{blockIdx.x / across % down} * Tiles::rows;
  const index_t column = index_t{blockIdx.x % across} * Tiles::columns;
  Tiles::template run<true, false>(memory, tile_product<TA, TB, TC>{a + first * m + row, m, b + first * n + column, n,
                                                                    c + (g * m + row) * n + column, n, m - row,
                                                                    n - column, end - first, accumulate});
}

/// Calls run(tiles) with tensor cores' tiles if the types, the format of products `Acc` and the sizes are theirs.
template <class Acc, class TA, class TB, class F>
void with_tiles(index_t in, index_t out, const F& run) {
  constexpr bool rounded = std::is_same_v<Acc, tf32_products> && std::is_same_v<TA, float>;
  if constexpr (std::is_same_v<TA, TB> && (sizeof(TA) == 2 || rounded))
    if (tensor_tiles<TA>::fits(in, out)) return run(tensor_tiles<TA>{});
  run(plain_tiles<compute_type<promote<TA, TB>>>{});
}
template <class Tiles, class... Parameters>
void launch_tiles(context<cuda>& ctx, index_t tiles, void (*kernel)(Parameters...),
                  std::type_identity_t<Parameters>... arguments) {
  static_assert(Tiles::bytes <= least_block_memory, "tiles fit in every GPU");
  if (tiles >= index_t{1} << 31)
    throw error("grouped_matmul: a GPU takes fewer than 2^31 tiles per call, here " + std::to_string(tiles) +
                "; split the rows or groups");
  launch_with_shared(ctx, kernel, static_cast<unsigned>(tiles), Tiles::threads, Tiles::bytes, arguments...);
}

template <class Acc, bool TransposeB, class TC, class TA, class TB, class Id>
void multiply_groups(context<cuda>& ctx, TC* c, bool accumulate, const TA* a, const TB* b, const Id* offsets,
                     index_t groups, index_t rows, index_t n, index_t k) {
  with_tiles<Acc, TA, TB>(n, k, [&](auto tiles) {
    using by = decltype(tiles);
    const index_t most = rows / by::rows + groups + 2;  // each segment has one tile that is not whole at most
    launch_tiles<by>(ctx, most * tiles_across<by>(n), &multiply_groups_kernel<by, TransposeB, TC, TA, TB, Id>, c,
                     accumulate, a, b, offsets, groups, rows, n, k);
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::grouped_matmul, cuda> {
  template <class Acc, class TY, class TX, class TW, class Id>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, TY* y, const TX* x, const TW* w, const Id* offsets,
                      group_sizes of) {
    cuda_kit::multiply_groups<Acc, false>(ctx, y, false, x, w, offsets, of.groups, of.rows, of.out, of.in);
  }
  template <class Acc, class TDX, class TY, class TW, class Id>
  static void backward(gradient_of<0>, accumulate_in<Acc>, context<cuda>& ctx, TDX* dx, bool accumulate, const TY* dy,
                       const TW* w, const Id* offsets, group_sizes of) {
    cuda_kit::multiply_groups<Acc, true>(ctx, dx, accumulate, dy, w, offsets, of.groups, of.rows, of.in, of.out);
  }
  template <class Acc, class TDW, class TY, class TX, class Id>
  static void backward(gradient_of<1>, accumulate_in<Acc>, context<cuda>& ctx, TDW* dw, bool accumulate, const TY* dy,
                       const TX* x, const Id* offsets, group_sizes of) {
    using namespace cuda_kit;
    with_tiles<Acc, TX, TY>(of.in, of.out, [&](auto tiles) {
      using by = decltype(tiles);
      launch_tiles<by>(ctx, of.groups * tiles_down<by>(of.in) * tiles_across<by>(of.out),
                       &multiply_within_groups_kernel<by, TDW, TX, TY, Id>, dw, accumulate, x, dy, offsets, of.rows,
                       of.in, of.out);
    });
  }
};

}  // namespace gradus
