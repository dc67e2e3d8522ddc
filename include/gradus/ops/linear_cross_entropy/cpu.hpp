#pragma once
#include <algorithm>
#include <type_traits>

#include "../../cpu/gemm.hpp"
#include "../cross_entropy/cpu.hpp"
#include "linear_cross_entropy.hpp"

namespace gradus {

template <index_t Vocabulary, index_t ChunkRows>
struct kernel<op::linear_cross_entropy<Vocabulary, ChunkRows>, cpu> {
  using row_kernel = kernel<op::cross_entropy<Vocabulary>, cpu>;

  /// `dx` and `dtable` may be null, both of them (not wanted). `logits` hold nothing of use afterwards.
  template <class Acc, class Loss, class TDX, class X, class TDTable, class Table, class C, class Chunk, class Rows,
            class TX, class TTable, class I, class Targets>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, long long ignore, view<Loss, shape<>> loss,
                      view<TDX, X> dx, view<TDTable, Table> dtable, view<C, Chunk> logits,
                      view<double, Rows> row_losses, view<const TX, X> x, view<const TTable, Table> table,
                      view<const I, Targets> targets) {
    constexpr index_t width = columns_of<X>;
    constexpr index_t columns = columns_of<Chunk>;
    const bool recorded = dx.data() != nullptr;
    const index_t count = row_kernel::counted("linear_cross_entropy(x, table, targets)", ignore, targets);
    for (index_t first = 0; first < rows_of<X>; first += rows_of<Chunk>) {
      const index_t n = std::min(rows_of<Chunk>, rows_of<X> - first);
      const TX* const from = x.data() + first * width;
      C* const chunk = logits.data();
      cpu_kit::gemm<Acc>(ctx, false, true, n, columns, width, from, width, table.data(), width, false, chunk, columns);
      C* const dchunk = recorded ? chunk : nullptr;  // the gradient of the logits takes their place
      row_kernel::template rows<columns>(ctx, ignore, count, n, dchunk, row_losses.data() + first, chunk,
                                         targets.data() + first);
      if (!recorded) continue;
      cpu_kit::gemm<Acc>(ctx, false, false, n, width, columns, dchunk, columns, table.data(), width, false,
                         dx.data() + first * width, width);
      cpu_kit::gemm<Acc>(ctx, true, false, columns, width, n, dchunk, columns, from, width, first != 0, dtable.data(),
                         width);
    }
    *loss.data() = row_kernel::template mean<Loss>(row_losses, count);
  }

  /// gradient *= dloss; no pass at all when that is 1.
  template <class T, class S, class C>
  static void backward(context<cpu>& ctx, view<T, S> gradient, view<const C, shape<>> dloss) {
    row_kernel::backward(ctx, gradient, dloss);
  }
};

}  // namespace gradus
