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
/// The products of a chunk of `n` rows, all but the last of `whole` rows: rules for product_of.
/// @tparam Bytes the element sizes of x and of its gradient
template <index_t Width, index_t Columns, index_t Stride, bool Scaled, std::size_t... Bytes>
struct chunk_products {
  static constexpr std::size_t alignment(index_t whole) {
    return std::min({alignment_of_steps(whole * Width * Bytes)...});
  }
  struct to_logits {
    constexpr product_sizes operator()(const auto& n, const auto& whole) const {
      return {false, true, n.size, Columns, Width, 1, false, alignment(whole.size)};
    }
  };
  struct to_x {
    constexpr product_sizes operator()(const auto& n, const auto& whole) const {
      return {false, false, n.size, Width, Columns, 1, false, alignment(whole.size), Stride, Scaled};
    }
  };
  struct to_table {
    constexpr product_sizes operator()(const auto& n, const auto& whole) const {
      return {true, false, Columns, Width, n.size, 1, false, alignment(whole.size), Stride, Scaled};
    }
  };
};
}  // namespace cuda_kit

template <index_t Vocabulary, index_t ChunkRows>
struct kernel<op::linear_cross_entropy<Vocabulary, ChunkRows>, cuda> {
  /// `dtable` may be null (not needed), or it and `dx`. Overwrites `logits` with their gradient, in the products' type.
  template <class Acc, class X, class Chunk, class Loss, class TDX, class TDTable, class C, class T, class Id>
  static void forward(accumulate_in<Acc>, context<cuda>& ctx, long long ignore, shaped_matrix<X> of,
                      shaped_matrix<Chunk>, index_t chunk, Loss* loss, TDX* dx, TDTable* dtable, C* logits,
                      double* row_losses, const T* x, const T* table, const Id* targets) {
    using namespace cuda_kit;
    constexpr index_t width = columns_of<X>, columns = columns_of<Chunk>;
    using G = std::conditional_t<sizeof(T) == 2, T, C>;
    constexpr index_t stride = columns * sizeof(C) / sizeof(G);
    using how = logit_gradient<C, G>;
    using factor = compute_type<C>;
    using products = chunk_products<width, columns, stride, !how::divided, sizeof(T), sizeof(TDX)>;
    const bool recorded = dx != nullptr;
    G* const dlogits = recorded ? static_cast<G*>(static_cast<void*>(logits)) : nullptr;
    auto* const factors = how::divided ? nullptr : static_cast<factor*>(ctx.get<gemm_library>().factors());
    auto* const count = static_cast<int*>(ctx.get<count_workspace>().reserve(ctx, sizeof(int)));
    launch(ctx, &cross_entropy_count_kernel<Id, factor, how::kept>, 1, count_threads, count, factors, targets, of.rows,
           ignore);
    // `size` and `of_chunk`, rows of this chunk and of all but the last, have static extents unless x is bounded.
    const auto run = [&](const auto& size, const auto& of_chunk, index_t first) {
      const T* const from = x + first * width;
      gemm(ctx, product_of<Acc, T, C>(typename products::to_logits{}, size, of_chunk), from, table, logits, false);
      cross_entropy_rows<factor, columns, stride, Vocabulary>(ctx, size.size, count, dlogits, row_losses + first,
                                                              logits, targets + first, ignore);
      if (!recorded) return;
      gemm(ctx, product_of<Acc, G, TDX>(typename products::to_x{}, size, of_chunk), dlogits, table, dx + first * width,
           false);
      if (dtable != nullptr)
        gemm(ctx, product_of<Acc, G, TDTable>(typename products::to_table{}, size, of_chunk), dlogits, from, dtable,
             first != 0);
    };
    if constexpr (X::bounded) {
      static_cast<void>(row_columns<X>());
      const bounded_extents<shape<upto<rows_of<X>>>> whole(chunk);
      for (index_t first = 0; first < of.rows; first += chunk)
        run(bounded_extents<shape<upto<rows_of<X>>>>(std::min(chunk, of.rows - first)), whole, first);
    } else {
      constexpr index_t all = rows_of<X>, each = rows_of<Chunk>;
      for (index_t first = 0; first + each <= all; first += each) run(shape<each>{}, shape<each>{}, first);
      if constexpr (all % each != 0) run(shape<all % each>{}, shape<each>{}, all / each * each);
    }
    launch(ctx, &cross_entropy_mean_kernel<Loss>, 1, count_threads, loss, count, row_losses, of.rows);
  }

  /// gradient *= dloss; accesses nothing if that is 1.
  template <class T, class L>
  static void backward(context<cuda>& ctx, index_t size, T* gradient, const L* dloss) {
    cuda_kit::scale(ctx, gradient, dloss, size);
  }
};

}  // namespace gradus
