#pragma once
// The CUDA kernels of embedding.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "../../gpu/access.hpp"
#include "../../gpu/rows.hpp"
#include "../../gpu/runs.hpp"
#include "../../precision/promotion.hpp"
#include "../gather/cuda_segments.hpp"
#include "embedding.hpp"

namespace gradus {

namespace cuda_kit {

/// A token outside the table yields NaN, because a GPU cannot throw.
template <class T, class TX, class Id, class Walk>
__global__ void __launch_bounds__(block_threads)
    embedding_kernel(T* y, const Id* tokens, const TX* table, Walk walk, long long rows) {
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

template <index_t Rows>
inline constexpr bool rows_have_numbers = Rows < 0xFFFFFFFF;

}  // namespace cuda_kit

/// The gradient visits sorted tokens: one block, or a few, sum each row of the table in order, without atomics.
template <>
struct kernel<op::embedding, cuda> {
  template <class Y, class Table, class T, class Id, class TX>
  static void forward(context<cuda>& ctx, shaped_matrix<Y> of, shaped_matrix<Table> in, T* y, const Id* tokens,
                      const TX* table) {
    constexpr index_t columns = cuda_kit::row_columns<Table>();
    const index_t size = of.rows * columns;
    constexpr int width = columns % cuda_kit::vector_width<T, TX> == 0 ? cuda_kit::vector_width<T, TX> : 1;
    using count = cuda_kit::count_for<Y::size>;
    using walk = cuda_kit::walk<count, width, 1>;
    launch(ctx, &cuda_kit::embedding_kernel<T, TX, Id, walk>, cuda_kit::flat_blocks(size, width),
           cuda_kit::block_threads, y, tokens, table,
           walk{static_cast<count>(size), {cuda_kit::divisor<count>(columns)}}, in.rows);
  }

  template <class Y, class Table, class T, class TY, class Id>
  static void backward(context<cuda>& ctx, shaped_matrix<Y> of, shaped_matrix<Table> in, T* dtable, bool accumulate,
                       const TY* dy, const Id* tokens) {
    using namespace cuda_kit;
    constexpr index_t columns = row_columns<Table>();
    static_assert(rows_have_numbers<rows_of<Table>> && rows_of<Y> < (index_t{1} << 31),
                  "embedding: the GPU supports tables of fewer than 2^32 rows, and fewer than 2^31 tokens per call");
    if (!accumulate) device_access<cuda>::zero(ctx, dtable, Table::size * sizeof(T));
    constexpr int width = columns % vector_width<T, TY> == 0 ? vector_width<T, TY> : 1;
    add_by_index<width>(ctx, dtable, dy, tokens, {1, of.rows, in.rows, columns, false});
  }
};

}  // namespace gradus
