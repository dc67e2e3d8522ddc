#pragma once
// Two-stage sums: blocks sum chunks of the terms into the workspace, then a second kernel adds the chunks. No atomics:
// the order depends on the shapes only. A Reduction describes the walk over memory, as in ops/reduce.

#include <algorithm>
#include <type_traits>

#include "rows.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

/// Chunks into which `terms` rows are divided, `row_lanes` at a time, so that `strips` such sums give some hundred
/// blocks.
constexpr index_t column_chunks(index_t terms, index_t strips, index_t row_lanes) {
  const index_t most = (terms + row_lanes * 8 - 1) / (row_lanes * 8);
  return std::max<index_t>(1, std::min<index_t>(most, (512 + strips - 1) / strips));
}

/// The layout of a block of 256 threads: `Lanes` adjacent runs of Width columns, `row_lanes` rows at a time.
template <int Width, int Lanes>
struct column_layout {
  static constexpr int width = Width;
  static constexpr unsigned lanes = Lanes, row_lanes = block_threads / lanes;
  static constexpr dim3 block() { return block_threads; }
  static __device__ unsigned lane() { return threadIdx.x % lanes; }
  static __device__ unsigned row() { return threadIdx.x / lanes; }
  static __device__ unsigned lanes_of_block() { return lanes; }
  static __device__ unsigned rows_of_block() { return row_lanes; }
};
/// column_layout with a number of lanes that is known at run time, for bounded shapes: the block has two dimensions.
template <int Width>
struct bounded_column_layout {
  static constexpr int width = Width;
  unsigned lanes, row_lanes;
  dim3 block() const { return {lanes, row_lanes}; }
  static __device__ unsigned lane() { return threadIdx.x; }
  static __device__ unsigned row() { return threadIdx.y; }
  static __device__ unsigned lanes_of_block() { return blockDim.x; }
  static __device__ unsigned rows_of_block() { return blockDim.y; }
};

/// Adds the partial sums of all rows of threads to the first row's; see column_layout.
template <class Layout, class C>
__device__ inline void sum_over_row_lanes(vector_of<C, Layout::width>& sum) {
  __shared__ C room[block_threads / 2 * Layout::width];  // [row, element of a run, lane]
  const int row = static_cast<int>(Layout::row()), lanes = static_cast<int>(Layout::lanes_of_block());
  C* const mine = room + row * Layout::width * lanes + Layout::lane();
  for (int half = static_cast<int>(Layout::rows_of_block()) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int i = 0; i < Layout::width; ++i) mine[(i - half * Layout::width) * lanes] = sum.at[i];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int i = 0; i < Layout::width; ++i) sum.at[i] += mine[i * lanes];
  }
}

/// The terms of a sum that are the elements.
struct elements {
  template <class C>
  __device__ C operator()(C element, index_t /*output*/) const {
    return element;
  }
};
/// The terms of a sum that are squares of the elements' differences from `middle`, one value per output.
template <class C>
struct squared_distances {
  const C* middle;
  __device__ C operator()(C element, index_t output) const {
    const C d = element - middle[output];
    return d * d;
  }
};

/// Where the rows of a reduction start, with at most one reduced and one kept axis outside a row.
template <class Count>
struct plain_rows {
  Count out_stride, step_stride;
  __device__ Count row(Count out_row, Count step) const { return out_row * out_stride + step * step_stride; }
};
/// Where the rows of a reduction start, with more reduced or kept axes outside a row.
template <class Reduction>
struct nested_rows {
  __device__ index_t row(index_t out_row, index_t step) const { return Reduction::row(out_row, step); }
};
template <class Reduction, class Count>
constexpr auto reduced_rows() {
  constexpr index_t last_row = Reduction::out_rows - 1, last_step = Reduction::steps - 1;
  constexpr index_t out = last_row > 0 ? Reduction::row(1, 0) : 0, step = last_step > 0 ? Reduction::row(0, 1) : 0;
  if constexpr (Reduction::row(last_row, last_step) == last_row * out + last_step * step)
    return plain_rows<Count>{static_cast<Count>(out), static_cast<Count>(step)};
  else return nested_rows<Reduction>{};
}

/// The offset of a position along axes that are Axes at most, innermost first.
template <class Count, int Axes>
struct nested_axes {
  divisor<Count> extent[Axes];
  Count stride[Axes] = {};

  __device__ Count offset(Count position) const {
    Count at = 0;
#pragma unroll
    for (int axis = 0; axis + 1 < Axes; ++axis) at += extent[axis].divide(position) * stride[axis];
    return at + position * stride[Axes - 1];
  }
};
/// The rows of a reduction of bounded shapes: axes that are kept, and axes that are reduced, outside a row.
template <class Count, int Axes>
struct bounded_rows {
  nested_axes<Count, Axes> kept, reduced;
  __device__ Count row(Count out_row, Count step) const { return kept.offset(out_row) + reduced.offset(step); }
};

/// Sums by column: `terms` rows of `columns` per output row, `each` rows per chunk. One block per (strip, chunk, row).
template <class Count>
struct column_shares {
  Count columns, terms, each;
  divisor<Count> strips, chunks;
};
/// `partial` is null if there is one chunk.
template <class Layout, class Rows, class Count, class C, class T, class U, class Terms>
__global__ void __launch_bounds__(block_threads)
    sum_columns_kernel(T* to, C* partial, const U* from, bool accumulate, C factor, Terms terms_of, Rows rows,
                       column_shares<Count> shares) {
  Count out_row = blockIdx.x;
  const Count at = (shares.strips.divide(out_row) * Layout::lanes_of_block() + Layout::lane()) * Layout::width;
  const Count chunk = shares.chunks.divide(out_row);
  const bool here = at < shares.columns;
  const Count last = (chunk + 1) * shares.each, end = last < shares.terms ? last : shares.terms;
  vector_of<C, Layout::width> sum{};
  if (here)
#pragma unroll 4
    for (Count k = chunk * shares.each + Layout::row(); k < end; k += Layout::rows_of_block()) {
      const auto v = load<Layout::width, true>(from + rows.row(out_row, k) + at, Layout::width);
#pragma unroll
      for (int i = 0; i < Layout::width; ++i)
        sum.at[i] += terms_of(static_cast<C>(v.at[i]), out_row * shares.columns + at + i);
    }
  sum_over_row_lanes<Layout>(sum);
  if (!here || Layout::row() != 0) return;
  if (partial == nullptr)
    put<Layout::width, true>(to + out_row * shares.columns + at, accumulate, Layout::width,
                             [&](int i) { return factor * sum.at[i]; });
  else
    store<Layout::width, true>(partial + (out_row * shares.chunks.value + chunk) * shares.columns + at, sum,
                               Layout::width);
}

/// Sums of rows: `terms` runs for each output, `each` runs per chunk. A chunk belongs to a warp, or to a block.
template <class Count>
struct row_shares {
  Count columns, terms, each, groups;
  divisor<Count> runs_in_row, chunks;
  bool warps;
};
template <int Width, class Rows, class Count, class C, class T, class U, class Terms>
__global__ void __launch_bounds__(block_threads)
    sum_whole_rows_kernel(T* to, C* partial, const U* from, bool accumulate, C factor, Terms terms_of, Rows rows,
                          row_shares<Count> shares) {
  const unsigned threads = shares.warps ? 32 : block_threads, thread = threadIdx.x % threads;
  const Count group = shares.warps ? static_cast<Count>(blockIdx.x) * (block_threads / 32) + threadIdx.x / 32
                                   : static_cast<Count>(blockIdx.x);
  if (group >= shares.groups) return;  // for all threads of a warp, or for none
  Count output = group;
  const Count chunk = shares.chunks.divide(output);
  const Count last = (chunk + 1) * shares.each, end = last < shares.terms ? last : shares.terms;
  C mine = 0;
  for (Count r = chunk * shares.each + thread; r < end; r += threads) {
    Count step = r;
    const Count at = shares.runs_in_row.divide(step) * Width;
    const U* const run = from + rows.row(output, step) + at;
    const auto add = [&](auto whole, int n) {
      const auto v = load<Width, whole.value>(run, n);
#pragma unroll
      for (int i = 0; i < Width; ++i)
        if (whole.value || i < n) mine += terms_of(static_cast<C>(v.at[i]), output);
    };
    if (Width == 1 || at + Width <= shares.columns) add(std::true_type{}, Width);
    else add(std::false_type{}, static_cast<int>(shares.columns - at));
  }
  const C sum = shares.warps ? row_sum<32>(mine) : row_sum<static_cast<int>(block_threads)>(mine);
  if (thread != 0) return;
  if (partial == nullptr) put<1, true>(to + output, accumulate, 1, [&](int) { return factor * sum; });
  else partial[group] = sum;
}

/// Stage two: adds the partial sums of each target, [outputs / columns, chunks, targets, columns]. A target has `data`,
/// `outputs` elements or null, and `accumulate`: data[o] (+)= factor * the sum of `chunks` partial sums.
template <class C, class... Targets>
__global__ void __launch_bounds__(block_threads)
    add_parts_kernel(const C* partial, index_t outputs, index_t columns, index_t chunks, C factor, Targets... to) {
  constexpr int targets = sizeof...(Targets);
  using layout = column_layout<targets, 32>;
  const index_t o = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const index_t stride = targets * columns;
  vector_of<C, targets> sum{};
  if (o < outputs) {
    const C* const from = partial + o / columns * chunks * stride + o % columns;
#pragma unroll 4
    for (index_t c = threadIdx.x / 32; c < chunks; c += layout::row_lanes)
#pragma unroll
      for (int k = 0; k < targets; ++k) sum.at[k] += from[c * stride + static_cast<index_t>(k) * columns];
  }
  sum_over_row_lanes<layout>(sum);
  if (threadIdx.x >= 32 || o >= outputs) return;
  const auto put_sum = [&](const auto& target, C total) {
    if (target.data != nullptr)
      put<1, true>(target.data + o, target.accumulate, 1, [&](int) { return factor * total; });
  };
  int k = 0;
  (put_sum(to, sum.at[k++]), ...);  // by one thread, in order: two targets may be the same
}
template <class C, class... Targets>
void add_parts(context<cuda>& ctx, const C* partial, index_t outputs, index_t columns, index_t chunks, C factor,
               Targets... to) {
  launch(ctx, &add_parts_kernel<C, Targets...>, static_cast<unsigned>((outputs + 31) / 32), block_threads, partial,
         outputs, columns, chunks, factor, to...);
}

}  // namespace gradus::cuda_kit
