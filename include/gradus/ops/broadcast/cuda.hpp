#pragma once
#include "../../core/dtype.hpp"
#include "../../cuda/sums.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../../tensor/view.hpp"
#include "../reduce/plan.hpp"
#include "broadcast.hpp"

namespace gradus {

namespace cuda_kit {

/// to = from, or to += from, in the wider of their types. Of no shape: it is compiled once for all.
template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    convert_kernel(To* to, const From* from, index_t size, bool accumulate) {
  using C = compute_type<promote<To, From>>;
  constexpr int width = vector_width<To, From>;
  const index_t at = (static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x) * width;
  if (at >= size) return;
  const auto run = [&](auto whole, int n) {
    const auto v = load<width, whole.value>(from + at, n);
    put<width, whole.value>(to + at, accumulate, n, [&](int i) { return convert_element<C>(v.at[i]); });
  };
  if (at + width <= size) run(std::true_type{}, width);
  else run(std::false_type{}, static_cast<int>(size - at));
}

/// to (+)= factor * the sums of `terms_of` the elements of `from`, over the axes that Small has not, or has as 1.
template <class T, class Small, class U, class Big, class Terms = elements>
void sum_into(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate,
              double factor, Terms terms_of = {}) {
  using C = compute_type<promote<T, U>>;
  using reduction = reduction_plan<Big, Small>;
  const C by = static_cast<C>(factor);
  if constexpr (reduction::inner_reduced) {
    using parts = whole_rows<reduction>;
    C* const partial = parts::chunks == 1 ? nullptr : scratch<C>(ctx, parts::groups);
    launch(ctx, &sum_whole_rows_kernel<reduction, C, T, U, Terms>, parts::blocks, block_threads, to.data(), partial,
           from.data(), accumulate, by, terms_of);
    if constexpr (parts::chunks > 1)
      add_parts(ctx, to.data(), partial, reduction::outputs, 1, parts::chunks, 1, accumulate, by);
  } else {
    using plan = column_plan<reduction::inner, vector_width<U>>;
    constexpr index_t chunks = plan::chunks(reduction::steps, reduction::out_rows);
    C* const partial = chunks == 1 ? nullptr : scratch<C>(ctx, Small::size * chunks);
    launch(ctx, &sum_columns_kernel<reduction, chunks, C, T, U, Terms>,
           static_cast<unsigned>(plan::strips * chunks * reduction::out_rows), block_threads, to.data(), partial,
           from.data(), accumulate, by, terms_of);
    if constexpr (chunks > 1)
      add_parts(ctx, to.data(), partial, Small::size, reduction::inner, chunks, 1, accumulate, by);
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::convert, cuda> {
  template <class To, class From>
  static void forward(context<cuda>& ctx, To* to, const From* from, index_t n, bool accumulate) {
    constexpr index_t width = cuda_kit::vector_width<To, From>;
    cuda_kit::launch(ctx, &cuda_kit::convert_kernel<To, From>, cuda_kit::blocks_for((n + width - 1) / width),
                     cuda_kit::block_threads, to, from, n, accumulate);
  }
};

/// Sums in a fixed order, without atomics: the same bits every run.
template <>
struct kernel<op::sum_to, cuda> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate) {
    cuda_kit::sum_into(ctx, to, from, accumulate, 1.0);
  }
};

}  // namespace gradus
