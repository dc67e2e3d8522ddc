#pragma once
// The CUDA kernel of linear_cross_entropy.

#include <algorithm>
#include <type_traits>

#include "../cross_entropy/cuda.hpp"
#include "../matmul/cuda.hpp"
#include "linear_cross_entropy.hpp"

namespace gradus {

namespace cuda_kit {
/// The alignment of all multiples of `step` bytes from an aligned address.
constexpr std::size_t alignment_of_steps(std::size_t step) { return std::min(cuda::alignment, step & (~step + 1)); }
}  // namespace cuda_kit

template <index_t Vocabulary, index_t ChunkRows>
struct kernel<op::linear_cross_entropy<Vocabulary, ChunkRows>, cuda> {
  /// `dx` and `dtable` may both be null (not needed). Overwrites `logits` with their gradient, in the products' type.
  template <class Acc, class Loss, class TDX, class X, class TDTable, class Table, class C, class Chunk, class Rows,
            class T, class I, class Targets>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, long long ignore, view<Loss, shape<>, cuda> loss,
                      view<TDX, X, cuda> dx, view<TDTable, Table, cuda> dtable, view<C, Chunk, cuda> logits,
                      view<double, Rows, cuda> row_losses, view<const T, X, cuda> x, view<const T, Table, cuda> table,
                      view<const I, Targets, cuda> targets) {
    using namespace cuda_kit;
    constexpr index_t rows = rows_of<X>, chunk = rows_of<Chunk>;
    constexpr index_t width = columns_of<X>, columns = columns_of<Chunk>;
    using G = std::conditional_t<sizeof(T) == 2, T, C>;
    constexpr index_t stride = columns * sizeof(C) / sizeof(G);
    using how = logit_gradient<C, G>;
    using factor = compute_type<C>;
    constexpr std::size_t alignment =
        std::min({alignment_of_steps(chunk * width * sizeof(T)), alignment_of_steps(chunk * width * sizeof(TDX))});
    const bool recorded = dx.data() != nullptr;
    G* const dlogits = recorded ? static_cast<G*>(static_cast<void*>(logits.data())) : nullptr;
    auto* const factors = how::divided ? nullptr : static_cast<factor*>(ctx.get<gemm_library>().factors());
    auto* const count = static_cast<int*>(ctx.get<count_workspace>().reserve(ctx, sizeof(int)));
    launch(ctx, &cross_entropy_count_kernel<I, factor, how::kept>, 1, count_threads, count, factors, targets.data(),
           rows, ignore);
    const auto run = [&](auto size, index_t first) {
      constexpr index_t n = decltype(size)::value;
      const T* const from = x.data() + first * width;
      gemm<product<Acc, T, C, false, true, n, columns, width, 1, false, alignment>>(ctx, from, table.data(),
                                                                                    logits.data(), false);
      cross_entropy_rows<factor, columns, stride, Vocabulary>(ctx, n, count, dlogits, row_losses.data() + first,
                                                              logits.data(), targets.data() + first, ignore);
      if (!recorded) return;
      using to_x = product<Acc, G, TDX, false, false, n, width, columns, 1, false, alignment>;
      using to_table = product<Acc, G, TDTable, true, false, columns, width, n, 1, false, alignment>;
      gemm<product_of_rows<to_x, stride, !how::divided>>(ctx, dlogits, table.data(), dx.data() + first * width, false);
      gemm<product_of_rows<to_table, stride, !how::divided>>(ctx, dlogits, from, dtable.data(), first != 0);
    };
    for (index_t first = 0; first + chunk <= rows; first += chunk) run(std::integral_constant<index_t, chunk>{}, first);
    if constexpr (rows % chunk != 0) run(std::integral_constant<index_t, rows % chunk>{}, rows / chunk * chunk);
    launch(ctx, &cross_entropy_mean_kernel<Loss>, 1, count_threads, loss.data(), count, row_losses.data(), rows);
  }

  /// gradient *= dloss; accesses nothing if that is 1.
  template <class T, class S, class L>
  static void backward(context<cuda>& ctx, view<T, S, cuda> gradient, view<const L, shape<>, cuda> dloss) {
    cuda_kit::scale(ctx, gradient.data(), dloss.data(), S::size);
  }
};

}  // namespace gradus
