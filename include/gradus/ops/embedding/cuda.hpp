#pragma once
// The CUDA kernels of embedding.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "../../cuda/access.hpp"
#include "../../cuda/runs.hpp"
#include "../../cuda/sort_cub.hpp"
#include "../../precision/promotion.hpp"
#include "embedding.hpp"

namespace gradus {

namespace cuda_kit {

/// A token outside the table yields NaN, because a GPU cannot throw.
template <class T, class TX, class I, class Walk>
__global__ void __launch_bounds__(block_threads)
    embedding_kernel(T* y, const I* tokens, const TX* table, Walk walk, long long rows) {
  walk_run(walk, [&](auto n, auto at) {
    auto position = at;
    const auto column = walk.extent[0].divide(position);
    const auto token = static_cast<long long>(tokens[position]);
    if (token >= 0 && token < rows) {
      const TX* const row = table + static_cast<index_t>(token) * walk.extent[0].value;
      const auto from = load<n, true>(row + column, n);
      vector_of<T, n> to;
#pragma unroll
      for (int i = 0; i < n; ++i) to.at[i] = static_cast<T>(from.at[i]);
      store<n, true>(y + at, to, n);
    } else {
      put<n, true>(y + at, false, n, [](int) { return compute_type<T>(NAN); });
    }
  });
}

/// Sort keys of positions: the token, or Rows if it is outside the table.
template <class I>
__global__ void __launch_bounds__(block_threads)
    token_keys_kernel(std::uint32_t* keys, std::uint32_t* positions, const I* tokens, std::uint32_t count,
                      std::uint32_t rows) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= count) return;
  const auto token = static_cast<long long>(tokens[i]);
  keys[i] = token >= 0 && token < static_cast<long long>(rows) ? static_cast<std::uint32_t>(token) : rows;
  positions[i] = i;
}

/// Sums the gradients of equal keys. A block takes `piece` positions in key order and adds segments within it to the
/// table; sums of a segment begun earlier go to partial[piece][0], of one that continues to partial[piece][1].
struct segment_sums {
  static constexpr std::uint32_t piece = 64;
  static constexpr std::uint32_t pieces(std::uint32_t count) { return (count + piece - 1) / piece; }
};

template <int Width, class C, class T, class TY>
__global__ void __launch_bounds__(block_threads)
    sum_segments_kernel(T* table, C* partial, const TY* dy, const std::uint32_t* keys, const std::uint32_t* positions,
                        std::uint32_t count, std::uint32_t rows, index_t columns) {
  constexpr int width = Width;
  const index_t column = (static_cast<index_t>(blockIdx.y) * block_threads + threadIdx.x) * width;
  if (column >= columns) return;
  const std::uint32_t first = blockIdx.x * segment_sums::piece;
  const std::uint32_t last = first + segment_sums::piece < count ? first + segment_sums::piece : count;
  vector_of<C, width> sum{};
  std::uint32_t begin = first;  // start of the segment within this piece
  for (std::uint32_t i = first; i < last; ++i) {
    const std::uint32_t key = keys[i];
    const auto v = load<width, true>(dy + static_cast<index_t>(positions[i]) * columns + column, width);
#pragma unroll
    for (int j = 0; j < width; ++j) sum.at[j] += static_cast<C>(v.at[j]);
    const bool goes_on = i + 1 < count && keys[i + 1] == key;
    if (i + 1 < last && goes_on) continue;
    if (key < rows) {
      const bool came_in = begin == first && first > 0 && keys[first - 1] == key;
      if (came_in || goes_on)
        store<width, true>(partial + (static_cast<index_t>(blockIdx.x) * 2 + (came_in ? 0 : 1)) * columns + column, sum,
                           width);
      else
        put<width, true>(table + static_cast<index_t>(key) * columns + column, true, width,
                         [&](int j) { return sum.at[j]; });
    }
    sum = {};
    begin = i + 1;
  }
}

/// Sums the segments that cross pieces, in the block of the piece where each begins.
template <class C, class T>
__global__ void __launch_bounds__(block_threads)
    join_segments_kernel(T* table, const C* partial, const std::uint32_t* keys, std::uint32_t count, std::uint32_t rows,
                         index_t columns) {
  const std::uint32_t first = blockIdx.x * segment_sums::piece;
  const std::uint32_t next = first + segment_sums::piece;
  if (next >= count) return;
  const std::uint32_t key = keys[next - 1];
  if (key >= rows || keys[next] != key) return;                           // the segment ends here
  if (first > 0 && keys[first] == key && keys[first - 1] == key) return;  // it began in an earlier piece
  const index_t column = static_cast<index_t>(blockIdx.y) * block_threads + threadIdx.x;
  if (column >= columns) return;
  C sum = partial[(static_cast<index_t>(blockIdx.x) * 2 + 1) * columns + column];
  for (std::uint32_t at = next; at < count && keys[at] == key; at += segment_sums::piece)
    sum += partial[static_cast<index_t>(at / segment_sums::piece) * 2 * columns + column];
  put<1, true>(table + static_cast<index_t>(key) * columns + column, true, 1, [&](int) { return sum; });
}

template <index_t Rows>
inline constexpr bool rows_have_numbers = Rows < 0xFFFFFFFF;

}  // namespace cuda_kit

/// The gradient visits sorted tokens: one block, or a few, sum each row of the table in order, without atomics.
template <>
struct kernel<op::embedding, cuda> {
  template <class T, class Y, class I, class S, class TX, class Table>
  static void forward(context<cuda>& ctx, view<T, Y, cuda> y, view<const I, S, cuda> tokens,
                      view<const TX, Table, cuda> table) {
    constexpr index_t columns = columns_of<Table>;
    constexpr int width = columns % cuda_kit::vector_width<T, TX> == 0 ? cuda_kit::vector_width<T, TX> : 1;
    using count = cuda_kit::count_for<Y::size>;
    using walk = cuda_kit::walk<count, width, 1>;
    launch(ctx, &cuda_kit::embedding_kernel<T, TX, I, walk>, cuda_kit::flat_blocks(Y::size, width),
           cuda_kit::block_threads, y.data(), tokens.data(), table.data(),
           walk{Y::size, {cuda_kit::divisor<count>(columns)}}, rows_of<Table>);
  }

  template <class T, class Table, class TY, class Y, class I, class S>
  static void backward(context<cuda>& ctx, view<T, Table, cuda> dtable, bool accumulate, view<const TY, Y, cuda> dy,
                       view<const I, S, cuda> tokens) {
    using namespace cuda_kit;
    using C = compute_type<promote<T, TY>>;
    constexpr index_t columns = columns_of<Table>;
    static_assert(rows_have_numbers<rows_of<Table>> && S::size < (index_t{1} << 31),
                  "embedding: the GPU supports tables of fewer than 2^32 rows, and fewer than 2^31 tokens per call");
    constexpr auto count = static_cast<std::uint32_t>(S::size), rows = static_cast<std::uint32_t>(rows_of<Table>);
    constexpr int bits = std::bit_width(rows);
    if (!accumulate) device_access<cuda>::zero(ctx, dtable.data(), Table::size * sizeof(T));
    // One allocation: partial sums, keys and positions before and after sorting, and the sort's scratch.
    constexpr std::size_t partials = std::size_t{segment_sums::pieces(count)} * 2 * columns * sizeof(C);
    constexpr std::size_t list = (count * sizeof(std::uint32_t) + 255) / 256 * 256;
    constexpr std::size_t lists_at = (partials + 255) / 256 * 256;
    const std::size_t room = sort_room(ctx, static_cast<int>(count), bits);
    auto* const memory = scratch<unsigned char>(ctx, lists_at + 4 * list + room);
    C* const partial = reinterpret_cast<C*>(memory);
    const auto part = [&](int i) { return reinterpret_cast<std::uint32_t*>(memory + lists_at + i * list); };
    launch(ctx, &token_keys_kernel<I>, blocks_for(count), block_threads, part(0), part(1), tokens.data(), count, rows);
    sort_pairs(ctx, memory + lists_at + 4 * list, room, part(0), part(2), part(1), part(3), static_cast<int>(count),
               bits);
    constexpr int width = columns % vector_width<T, TY> == 0 ? vector_width<T, TY> : 1;
    constexpr unsigned pieces = segment_sums::pieces(count);
    constexpr auto threads = [](index_t work) {
      return static_cast<unsigned>(std::min<index_t>(block_threads, (work + 31) / 32 * 32));
    };
    constexpr index_t runs = columns / width;
    launch(ctx, &sum_segments_kernel<width, C, T, TY>, dim3(pieces, blocks_for(runs)), threads(runs), dtable.data(),
           partial, dy.data(), part(2), part(3), count, rows, columns);
    if (pieces > 1)
      launch(ctx, &join_segments_kernel<C, T>, dim3(pieces, blocks_for(columns)), threads(columns), dtable.data(),
             partial, part(2), count, rows, columns);
  }
};

}  // namespace gradus
