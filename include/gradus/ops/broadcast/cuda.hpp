#pragma once
// The CUDA kernels that convert and accumulate elements, and sum broadcast gradients.

#include <algorithm>
#include <bit>

#include "../../core/dtype.hpp"
#include "../../cuda/sums.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../../tensor/view.hpp"
#include "../reduce/layout.hpp"
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
  using reduction = reduction_layout<Big, Small>;
  using counter = count_for<Big::size>;
  constexpr index_t inner = reduction::inner, outputs = reduction::outputs, steps = reduction::steps;
  constexpr auto rows = reduced_rows<reduction, counter>();
  using rows_type = std::remove_const_t<decltype(rows)>;
  const C by = static_cast<C>(factor);
  const elementwise_target<T> target{to.data(), accumulate};
  const auto divide_by = [](index_t n) { return divisor<counter>(static_cast<counter>(n)); };
  if constexpr (reduction::inner_reduced) {
    constexpr bool flat = outputs == 1 && steps == 1;  // one array: its end may be an incomplete run
    constexpr int width = flat || inner % vector_width<U> == 0 ? vector_width<U> : 1;
    constexpr index_t runs = (inner + width - 1) / width, terms = runs * steps;
    constexpr bool warps = reduction::count <= 4096;
    constexpr index_t chunks = warps ? 1 : std::min<index_t>(1024, (reduction::count + 16383) / 16384);
    constexpr index_t groups = outputs * chunks;
    C* const partial = chunks == 1 ? nullptr : scratch<C>(ctx, groups);
    launch(ctx, &sum_whole_rows_kernel<width, rows_type, counter, C, T, U, Terms>,
           blocks_for(groups * (warps ? 32 : block_threads)), block_threads, to.data(), partial, from.data(),
           accumulate, by, terms_of, rows,
           {inner, terms, (terms + chunks - 1) / chunks, groups, divide_by(runs), divide_by(chunks), warps});
    if (chunks > 1) add_parts(ctx, partial, outputs, 1, chunks, by, target);
  } else {
    constexpr int width = inner % vector_width<U> == 0 ? vector_width<U> : 1;
    using layout = column_layout<width, static_cast<int>(std::min<index_t>(32, std::bit_ceil(inner / width)))>;
    constexpr index_t out_rows = outputs / inner, strips = layout::strips(inner);
    constexpr index_t chunks = layout::chunks(steps, strips * out_rows);
    C* const partial = chunks == 1 ? nullptr : scratch<C>(ctx, outputs * chunks);
    launch(ctx, &sum_columns_kernel<layout, rows_type, counter, C, T, U, Terms>,
           static_cast<unsigned>(strips * chunks * out_rows), block_threads, to.data(), partial, from.data(),
           accumulate, by, terms_of, rows,
           {inner, steps, (steps + chunks - 1) / chunks, divide_by(strips), divide_by(chunks)});
    if (chunks > 1) add_parts(ctx, partial, outputs, inner, chunks, by, target);
  }
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
