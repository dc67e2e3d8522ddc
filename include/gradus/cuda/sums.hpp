#pragma once
// Sums of many terms, in two stages: blocks sum parts of the terms into the workspace, then the parts are added. No
// atomics: which terms are added together, and in which order, follows from the shapes alone. A Reduction says how it
// walks memory, as reduction_plan of ops/reduce does.

#include <algorithm>
#include <bit>

#include "rows.hpp"
#include "workspace.hpp"

namespace gradus::cuda_kit {

/// Threads by columns and rows: a block of 256 takes `lanes` runs of Width columns side by side, and `row_lanes` rows
/// at a time.
template <index_t Columns, int Widest>
struct column_plan {
  static constexpr int width = Columns % Widest == 0 ? Widest : 1;
  static constexpr index_t runs = Columns / width;
  static constexpr int lanes = static_cast<int>(std::min<index_t>(32, std::bit_ceil(runs)));
  static constexpr int row_lanes = static_cast<int>(block_threads) / lanes;
  static constexpr index_t strips = (runs + lanes - 1) / lanes;
  /// Parts in which `terms` rows are summed, so that there are some hundred blocks for `outer` such sums.
  static constexpr index_t chunks(index_t terms, index_t outer) {
    const index_t most = (terms + row_lanes * 8 - 1) / (row_lanes * 8);
    const index_t wanted = (512 + strips * outer - 1) / (strips * outer);
    return std::max<index_t>(1, std::min(most, wanted));
  }
};

/// Adds up what the threads of a block have, of each column those of all rows, for the threads of the first row; see
/// column_plan.
template <class Plan, class C>
__device__ inline void sum_over_row_lanes(vector_of<C, Plan::width>& sum) {
  __shared__ C room[Plan::row_lanes / 2 == 0 ? 1 : Plan::row_lanes / 2][Plan::width][Plan::lanes];
  const int lane = static_cast<int>(threadIdx.x) % Plan::lanes;
  const int row = static_cast<int>(threadIdx.x) / Plan::lanes;
  for (int half = Plan::row_lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row >= half && row < 2 * half)
#pragma unroll
      for (int i = 0; i < Plan::width; ++i) room[row - half][i][lane] = sum.at[i];
    __syncthreads();
    if (row < half)
#pragma unroll
      for (int i = 0; i < Plan::width; ++i) sum.at[i] += room[row][i][lane];
  }
}

/// What is summed: the elements themselves,
struct elements {
  template <class C>
  __device__ C operator()(C element, index_t /*output*/) const {
    return element;
  }
};
/// or the squares of their distances from what lies in `middle`, one for each output.
template <class C>
struct squared_distances {
  const C* middle;
  __device__ C operator()(C element, index_t output) const {
    const C d = element - middle[output];
    return d * d;
  }
};

/// Of the sums that go column by column: block (strip, chunk, output row).
template <class Reduction, index_t Chunks, class C, class T, class U, class Terms>
__global__ void __launch_bounds__(block_threads)
    sum_columns_kernel(T* to, C* partial, const U* from, bool accumulate, C factor, Terms terms_of) {
  constexpr index_t columns = Reduction::inner, terms = Reduction::steps;
  using plan = column_plan<columns, vector_width<U>>;
  constexpr index_t each = (terms + Chunks - 1) / Chunks;
  const index_t strip = blockIdx.x % plan::strips;
  const index_t chunk = blockIdx.x / plan::strips % Chunks;
  const index_t out_row = blockIdx.x / plan::strips / Chunks;
  const index_t run = strip * plan::lanes + threadIdx.x % plan::lanes;
  const bool here = run < plan::runs;
  const index_t end = (chunk + 1) * each < terms ? (chunk + 1) * each : terms;
  vector_of<C, plan::width> sum{};
  if (here)
#pragma unroll 4
    for (index_t k = chunk * each + threadIdx.x / plan::lanes; k < end; k += plan::row_lanes) {
      const auto v = load<plan::width, true>(from + Reduction::row(out_row, k) + run * plan::width, plan::width);
#pragma unroll
      for (int i = 0; i < plan::width; ++i)
        sum.at[i] += terms_of(static_cast<C>(v.at[i]), out_row * columns + run * plan::width + i);
    }
  sum_over_row_lanes<plan>(sum);
  if (!here || threadIdx.x >= static_cast<unsigned>(plan::lanes)) return;
  if constexpr (Chunks == 1)
    put<plan::width, true>(to + out_row * columns + run * plan::width, accumulate, plan::width,
                           [&](int i) { return factor * sum.at[i]; });
  else store<plan::width, true>(partial + (out_row * Chunks + chunk) * columns + run * plan::width, sum, plan::width);
}

/// Of the sums of whole rows: a warp or a block for each part of a sum.
template <class Reduction>
struct whole_rows {
  static constexpr index_t count = Reduction::count;
  static constexpr int group = count <= 4096 ? 32 : static_cast<int>(block_threads);
  static constexpr index_t chunks = count <= 4096 ? 1 : std::min<index_t>(1024, (count + 16383) / 16384);
  static constexpr index_t groups = Reduction::outputs * chunks;
  static constexpr unsigned blocks = blocks_for(groups * group);
};
template <class Reduction, class C, class T, class U, class Terms>
__global__ void __launch_bounds__(block_threads)
    sum_whole_rows_kernel(T* to, C* partial, const U* from, bool accumulate, C factor, Terms terms_of) {
  using parts = whole_rows<Reduction>;
  constexpr bool flat =
      Reduction::outputs == 1 && Reduction::steps == 1;  // of one array: its end may be a part of a run
  constexpr int width = flat || Reduction::inner % vector_width<U> == 0 ? vector_width<U> : 1;
  constexpr index_t runs_in_row = (Reduction::inner + width - 1) / width;
  constexpr index_t runs = runs_in_row * Reduction::steps;
  constexpr index_t each = (runs + parts::chunks - 1) / parts::chunks;
  const index_t group = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) / parts::group;
  if (group >= parts::groups) return;  // a whole warp, or nobody
  const index_t output = group / parts::chunks, chunk = group % parts::chunks;
  const index_t end = (chunk + 1) * each < runs ? (chunk + 1) * each : runs;
  C mine = 0;
  for (index_t r = chunk * each + threadIdx.x % parts::group; r < end; r += parts::group) {
    const index_t at = r % runs_in_row * width;
    const U* const row = from + Reduction::row(output, r / runs_in_row);
    const auto add = [&](auto whole, int n) {
      const auto v = load<width, whole.value>(row + at, n);
#pragma unroll
      for (int i = 0; i < width; ++i)
        if (whole.value || i < n) mine += terms_of(static_cast<C>(v.at[i]), output);
    };
    if (Reduction::inner % width == 0 || at + width <= Reduction::inner) add(std::true_type{}, width);
    else add(std::false_type{}, static_cast<int>(Reduction::inner - at));
  }
  const C sum = row_sum<parts::group>(mine);
  if (threadIdx.x % parts::group != 0) return;
  if constexpr (parts::chunks == 1) put<1, true>(to + output, accumulate, 1, [&](int) { return factor * sum; });
  else partial[output * parts::chunks + chunk] = sum;
}

/// The second stage: to[o] (+)= factor * the sum of `chunks` parts, which lie [outputs / columns, chunks, apart,
/// columns].
template <class C, class T>
__global__ void __launch_bounds__(block_threads)
    add_parts_kernel(T* to, const C* partial, index_t outputs, index_t columns, index_t chunks, index_t apart,
                     bool accumulate, C factor) {
  using plan = column_plan<32, 1>;
  const index_t o = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const index_t stride = apart * columns;
  vector_of<C, 1> sum{};
  if (o < outputs) {
    const C* const from = partial + o / columns * chunks * stride + o % columns;
#pragma unroll 4
    for (index_t c = threadIdx.x / 32; c < chunks; c += plan::row_lanes) sum.at[0] += from[c * stride];
  }
  sum_over_row_lanes<plan>(sum);
  if (threadIdx.x < 32 && o < outputs) put<1, true>(to + o, accumulate, 1, [&](int) { return factor * sum.at[0]; });
}
template <class C, class T>
void add_parts(context<cuda>& ctx, T* to, const C* partial, index_t outputs, index_t columns, index_t chunks,
               index_t apart, bool accumulate, C factor) {
  launch(ctx, &add_parts_kernel<C, T>, static_cast<unsigned>((outputs + 31) / 32), block_threads, to, partial, outputs,
         columns, chunks, apart, accumulate, factor);
}

}  // namespace gradus::cuda_kit
