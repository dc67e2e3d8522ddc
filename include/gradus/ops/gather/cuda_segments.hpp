#pragma once
// Adds rows to rows of a table by index: sorts the indices, then sums the rows of equal ones in order.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "../../core/error.hpp"
#include "../../gpu/runs.hpp"
#include "../../gpu/sort.hpp"
#include "../../gpu/workspace.hpp"
#include "../../precision/promotion.hpp"
#include "gather.hpp"

namespace gradus::cuda_kit {

/// Sort keys of positions: the element or row of the target, or Rows for an index out of range.
template <class Id>
__global__ void __launch_bounds__(block_threads)
    index_keys_kernel(std::uint32_t* keys, std::uint32_t* positions, const Id* indices, std::uint32_t count,
                      divisor<std::uint32_t> entries, divisor<std::uint32_t> inner, std::uint32_t block_rows, bool each,
                      std::uint32_t rows) {
  const std::uint32_t i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= count) return;
  std::uint32_t block = i;
  const std::uint32_t column = inner.divide(block), entry = entries.divide(block);
  const auto index = static_cast<long long>(indices[each ? i : entry]);
  const bool inside = index >= 0 && index < static_cast<long long>(block_rows);
  keys[i] = inside ? (block * block_rows + static_cast<std::uint32_t>(index)) * inner.value + column : rows;
  positions[i] = i;
}

/// Keys and positions of `count` indices, sorted by key, stably, in a context's scratch, and scratch behind them.
struct sorted_indices {
  std::uint32_t *keys, *positions;
  void* rest;
};
/// Sorts indices by the keys of index_keys_kernel, whose arguments these are; with `rest` bytes of scratch.
template <class Id>
sorted_indices sort_indices(context<cuda>& ctx, const Id* indices, std::uint32_t count, index_t entries, index_t inner,
                            index_t block_rows, bool each, std::uint32_t rows, std::size_t rest = 0) {
  const int bits = std::bit_width(rows), number = static_cast<int>(count);
  const std::size_t list = (count * sizeof(std::uint32_t) + 255) / 256 * 256;
  const std::size_t room = sort_room(ctx, number, bits), room_end = (room + 255) / 256 * 256;
  auto* const memory = scratch<unsigned char>(ctx, 4 * list + room_end + rest);
  const auto part = [&](int i) { return reinterpret_cast<std::uint32_t*>(memory + i * list); };
  const auto divide_by = [](index_t n) { return divisor<std::uint32_t>(static_cast<std::uint32_t>(n)); };
  launch(ctx, &index_keys_kernel<Id>, blocks_for(count), block_threads, part(0), part(1), indices, count,
         divide_by(entries), divide_by(inner), static_cast<std::uint32_t>(block_rows), each, rows);
  sort_pairs(ctx, memory + 4 * list, room, part(0), part(2), part(1), part(3), number, bits);
  return {part(2), part(3), memory + 4 * list + room_end};
}

/// Sums the rows of equal keys. A row of threads takes `piece` positions in key order and adds segments within it to
/// the table; sums of a segment begun earlier go to partial[piece][0], of one that continues to partial[piece][1].
struct segment_sums {
  static constexpr std::uint32_t piece = 64;
  static constexpr std::uint32_t pieces(std::uint32_t count) { return (count + piece - 1) / piece; }
  static __device__ std::uint32_t own_piece() { return blockIdx.x * blockDim.y + threadIdx.y; }
  static __device__ index_t own_column() { return static_cast<index_t>(blockIdx.y) * blockDim.x + threadIdx.x; }
};

template <int Width, class C, class T, class TY>
__global__ void __launch_bounds__(block_threads)
    sum_segments_kernel(T* table, C* partial, const TY* dy, const std::uint32_t* keys, const std::uint32_t* positions,
                        std::uint32_t count, std::uint32_t rows, index_t columns) {
  constexpr int width = Width;
  const index_t column = segment_sums::own_column() * width;
  const std::uint32_t own = segment_sums::own_piece(), first = own * segment_sums::piece;
  if (column >= columns || first >= count) return;
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
        store<width, true>(partial + (static_cast<index_t>(own) * 2 + (came_in ? 0 : 1)) * columns + column, sum,
                           width);
      else
        put<width, true>(table + static_cast<index_t>(key) * columns + column, true, width,
                         [&](int j) { return sum.at[j]; });
    }
    sum = {};
    begin = i + 1;
  }
}

/// Sums the segments that cross pieces, by the threads of the piece where each begins.
template <class C, class T>
__global__ void __launch_bounds__(block_threads)
    join_segments_kernel(T* table, const C* partial, const std::uint32_t* keys, std::uint32_t count, std::uint32_t rows,
                         index_t columns) {
  const std::uint32_t own = segment_sums::own_piece(), first = own * segment_sums::piece;
  const std::uint32_t next = first + segment_sums::piece;
  if (next >= count) return;
  const std::uint32_t key = keys[next - 1];
  if (key >= rows || keys[next] != key) return;                           // the segment ends here
  if (first > 0 && keys[first] == key && keys[first - 1] == key) return;  // it began in an earlier piece
  const index_t column = segment_sums::own_column();
  if (column >= columns) return;
  C sum = partial[(static_cast<index_t>(own) * 2 + 1) * columns + column];
  for (std::uint32_t at = next; at < count && keys[at] == key; at += segment_sums::piece)
    sum += partial[static_cast<index_t>(at / segment_sums::piece) * 2 * columns + column];
  put<1, true>(table + static_cast<index_t>(key) * columns + column, true, 1, [&](int) { return sum; });
}

/// Adds the elements `from` of a move's y to the elements `to` of its x. Sums each in a fixed order, without atomics.
template <int Width, class T, class TY, class Id>
void add_by_index(context<cuda>& ctx, T* to, const TY* from, const Id* indices, indexed_move move) {
  using C = compute_type<promote<T, TY>>;
  const index_t columns = move.each ? 1 : move.inner, inner = move.inner / columns;  // adds rows of `columns` elements
  const index_t elements = move.outer * move.count * inner, targets = move.outer * move.rows * inner;
  if (elements >= (index_t{1} << 31) || targets >= 0xFFFFFFFF)
    throw error("embedding, gather, index_select, scatter_add: a GPU adds fewer than 2^31 rows to fewer than 2^32");
  const auto count = static_cast<std::uint32_t>(elements), rows = static_cast<std::uint32_t>(targets);
  const std::uint32_t pieces = segment_sums::pieces(count);
  const sorted_indices sorted = sort_indices(ctx, indices, count, move.count, inner, move.rows, move.each, rows,
                                             std::size_t{pieces} * 2 * columns * sizeof(C));
  C* const partial = static_cast<C*>(sorted.rest);
  // Threads for a row, and rows for a block.
  const auto run = [&](auto kernel, index_t across, auto... arguments) {
    const index_t whole_warps = std::min<index_t>(block_threads, (across + 31) / 32 * 32);
    const auto x = static_cast<unsigned>(across < 32 ? std::bit_ceil(across) : whole_warps);
    const unsigned y = across < 32 ? block_threads / x : 1;
    launch(ctx, kernel, dim3(blocks_for(pieces, y), blocks_for(across, x)), dim3(x, y), arguments...);
  };
  run(&sum_segments_kernel<Width, C, T, TY>, columns / Width, to, partial, from, sorted.keys, sorted.positions, count,
      rows, columns);
  if (pieces > 1) run(&join_segments_kernel<C, T>, columns, to, partial, sorted.keys, count, rows, columns);
}

}  // namespace gradus::cuda_kit
