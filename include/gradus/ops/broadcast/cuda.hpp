#pragma once
// The CUDA kernels that convert and accumulate elements, and sum broadcast gradients.

#include <algorithm>
#include <type_traits>

#include "../../core/dtype.hpp"
#include "../../gpu/sums.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../../tensor/view.hpp"
#include "../reduce/cuda_layout.hpp"
#include "broadcast.hpp"

namespace gradus {

namespace cuda_kit {

/// to = from, or to += from, in the wider type. Independent of shapes, so compiled once.
template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    convert_kernel(To* to, const From* from, index_t size, bool accumulate) {
  using C = compute_type<promote<To, From>>;
  constexpr int width = vector_width<To, From>;
  flat_run<width>(size, [&](auto whole, index_t at, int n) {
    const auto v = load<width, whole.value>(from + at, n);
    put<width, whole.value>(to + at, accumulate, n, [&](int i) { return convert_element<C>(v.at[i]); });
  });
}

/// to (+)= factor * the sums of `terms_of` the elements of `from`, over the axes that Small lacks or has as 1.
template <class T, class Small, class U, class Big, class Terms = elements>
void sum_into(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate,
              double factor, Terms terms_of = {}) {
  using C = compute_type<promote<T, U>>;
  using counter = count_for<Big::size>;
  const auto reduction = reduction_of(from, to);
  const index_t inner = reduction.inner, outputs = reduction.outputs, steps = reduction.steps;
  const auto rows = rows_of_reduction<counter, Big, Small>(reduction);
  using rows_type = std::remove_const_t<decltype(rows)>;
  const C by = static_cast<C>(factor);
  const elementwise_target<T> target{to.data(), accumulate};
  const auto count = [](index_t n) { return static_cast<counter>(n); };
  const auto divide_by = [](index_t n) { return divisor<counter>(static_cast<counter>(n)); };
  with_inner_axis<vector_width<U>, Big, Small>(reduction, [&](auto inner_reduced, auto run) {
    constexpr int width = decltype(run)::value;
    if constexpr (decltype(inner_reduced)::value) {
      const index_t runs = (inner + width - 1) / width, terms = runs * steps;
      const bool warps = reduction.count <= 4096;
      const index_t chunks = warps ? 1 : std::min<index_t>(1024, (reduction.count + 16383) / 16384);
      const index_t groups = outputs * chunks;
      C* const partial = chunks == 1 ? nullptr : scratch<C>(ctx, groups);
      launch(ctx, &sum_whole_rows_kernel<width, rows_type, counter, C, T, U, Terms>,
             blocks_for(groups * (warps ? 32 : block_threads)), block_threads, to.data(), partial, from.data(),
             accumulate, by, terms_of, rows,
             {count(inner), count(terms), count((terms + chunks - 1) / chunks), count(groups), divide_by(runs),
              divide_by(chunks), warps});
      if (chunks > 1) add_parts(ctx, partial, outputs, 1, chunks, by, target);
    } else {
      const auto layout = columns_of_reduction<width, Big>(reduction);
      const index_t out_rows = outputs / inner, strips = (inner / width + layout.lanes - 1) / layout.lanes;
      const index_t chunks = column_chunks(steps, strips * out_rows, layout.row_lanes);
      C* const partial = chunks == 1 ? nullptr : scratch<C>(ctx, outputs * chunks);
      launch(ctx, &sum_columns_kernel<std::remove_const_t<decltype(layout)>, rows_type, counter, C, T, U, Terms>,
             static_cast<unsigned>(strips * chunks * out_rows), layout.block(), to.data(), partial, from.data(),
             accumulate, by, terms_of, rows,
             {count(inner), count(steps), count((steps + chunks - 1) / chunks), divide_by(strips), divide_by(chunks)});
      if (chunks > 1) add_parts(ctx, partial, outputs, inner, chunks, by, target);
    }
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::convert, cuda> {
  template <class To, class From>
  static void forward(context<cuda>& ctx, To* to, const From* from, index_t n, bool accumulate) {
    launch(ctx, &cuda_kit::convert_kernel<To, From>, cuda_kit::flat_blocks(n, cuda_kit::vector_width<To, From>),
           cuda_kit::block_threads, to, from, n, accumulate);
  }
};

/// Sums in a fixed order, without atomics: the bits are reproducible.
template <>
struct kernel<op::sum_to, cuda> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate) {
    cuda_kit::sum_into(ctx, to, from, accumulate, 1.0);
  }
};

}  // namespace gradus
