#pragma once
// The CPU kernel of linear_cross_entropy.

#include <algorithm>

#include "../../cpu/gemm.hpp"
#include "../cross_entropy/cpu.hpp"
#include "linear_cross_entropy.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// `logits` [chunk_rows, columns] hold the logits of a chunk of rows, then their gradient.
template <class Acc, class Loss, class TDX, class TDTable, class C, class TX, class TTable, class Id>
void linear_cross_entropy_chunks(context<cpu>& ctx, long long ignore, Loss* loss, TDX* dx, TDTable* dtable, C* logits,
                                 double* row_losses, const TX* x, const TTable* table, const Id* targets, index_t rows,
                                 index_t width, index_t chunk_rows, index_t columns, index_t vocabulary) {
  const index_t count = counted_targets("linear_cross_entropy(x, table, targets)", ignore, vocabulary, targets, rows);
  for (index_t first = 0; first < rows; first += chunk_rows) {
    const index_t n = std::min(chunk_rows, rows - first);
    const TX* const from = x + first * width;
    gemm<Acc>(ctx, false, true, n, columns, width, from, width, table, width, false, logits, columns);
    C* const dlogits = dx == nullptr ? nullptr : logits;
    cross_entropy_rows(ctx, ignore, 1, count, dlogits, row_losses + first, logits, targets + first, n, columns,
                       vocabulary);
    if (dlogits == nullptr) continue;
    gemm<Acc>(ctx, false, false, n, width, columns, dlogits, columns, table, width, false, dx + first * width, width);
    if (dtable != nullptr)
      gemm<Acc>(ctx, true, false, columns, width, n, dlogits, columns, from, width, first != 0, dtable, width);
  }
  *loss = mean_loss<Loss>(row_losses, rows, count);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <index_t Vocabulary, index_t ChunkRows>
struct kernel<op::linear_cross_entropy<Vocabulary, ChunkRows>, cpu> {
  /// `dtable` may be null (not needed), or it and `dx`. Overwrites `logits`.
  template <class Acc, class Loss, class TDX, class TDTable, class C, class TX, class TTable, class Id>
  static void forward(accumulate_in<Acc>, context<cpu>& ctx, long long ignore, matrix_extents of,
                      matrix_extents of_logits, index_t chunk, Loss* loss, TDX* dx, TDTable* dtable, C* logits,
                      double* row_losses, const TX* x, const TTable* table, const Id* targets) {
    cpu_kit::linear_cross_entropy_chunks<Acc>(ctx, ignore, loss, dx, dtable, logits, row_losses, x, table, targets,
                                              of.rows, of.columns, chunk, of_logits.columns, Vocabulary);
  }

  /// gradient *= dloss; nothing if dloss is 1.
  template <class T, class L>
  static void backward(context<cpu>& ctx, index_t size, T* gradient, const L* dloss) {
    cpu_kit::scale_gradient(ctx, gradient, size, *dloss, 1);
  }
};

}  // namespace gradus
