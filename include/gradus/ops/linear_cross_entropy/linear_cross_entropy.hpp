#pragma once
// Cross-entropy of a linear layer's output, without storing all logits: operation, shape rule and gradient.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../losses/losses.hpp"

namespace gradus {

namespace detail {
template <index_t ColumnsOfX, index_t ColumnsOfTable>
inline constexpr bool columns_of_x_equal_columns_of_table = ColumnsOfX == ColumnsOfTable;
template <class LeadingShapeOfX, class ShapeOfTargets>
inline constexpr bool targets_match_rows_of_x = std::is_same_v<LeadingShapeOfX, ShapeOfTargets>;
template <index_t Vocabulary, index_t RowsOfTable>
inline constexpr bool vocabulary_fits_rows_of_table = Vocabulary >= 1 && Vocabulary <= RowsOfTable;
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Cross-entropy of the logits x table^T, computed in chunks of rows.
///
/// If recorded, forward also computes both gradients, while a chunk's logits exist, and saves only them; of a table
/// with a frozen policy there is none. Kernels: forward(accumulate_in, ctx, ignore, matrix of x, of a
/// chunk's logits, rows per chunk, loss, dx, dtable, logits, row losses, x, table, targets); backward(ctx, size,
/// gradient, dloss).
/// @tparam ChunkRows rows per chunk; 0: as many as fit in the device's `chunk_bytes`, at least 128
template <index_t Vocabulary, index_t ChunkRows = 0>
struct linear_cross_entropy {
  long long ignore;

  static constexpr std::string_view name = "linear_cross_entropy";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b011;  // not the targets
  static constexpr unsigned rounds_operands = 0b010;
  static constexpr save_rule saves = save_nothing();  // but, as statistics, the gradients for a loss gradient of 1
  static constexpr bool gradients_in_forward = true;

  /// The cost of a recorded call, with gradients: three products. Otherwise it is one.
  template <class X, class Table, class Targets>
  static constexpr flop_counts flops() {
    return {(6 * Table::shape::extent(1) + 5) * rows_of<typename X::shape> * Table::shape::extent(0), 0};
  }

  /// Logits of bf16 are stored in bf16, others in the accumulation type: f16 has too narrow a range for the gradient.
  template <class T, class Accumulate>
  using logit = std::conditional_t<std::is_same_v<T, bf16>, bf16, Accumulate>;

  /// Rows per chunk: the fewest equal chunks within the device's `chunk_bytes`, in multiples of 128. Each reads the
  /// whole table, and reads and writes its gradient.
  template <class X, class Table>
  static constexpr index_t chunk_rows(index_t rows = rows_of<typename X::shape>) {
    if (ChunkRows != 0) return std::min(rows, ChunkRows);
    constexpr index_t fit = fitting_rows<X, Table>();
    if (rows <= fit) return rows;
    constexpr index_t most = std::max<index_t>(fit / 128, 1);  // chunk rows / 128
    const index_t chunks = (rows + most * 128 - 1) / (most * 128);
    return std::min(rows, (rows + chunks * 128 - 1) / (chunks * 128) * 128);
  }
  /// The largest chunk of tensors of this shape.
  template <class X, class Table>
  static constexpr index_t largest_chunk() {
    constexpr index_t rows = rows_of<typename X::shape>;
    if constexpr (!X::shape::bounded || ChunkRows != 0) return chunk_rows<X, Table>();
    else return std::min(rows, std::max<index_t>(fitting_rows<X, Table>(), 128));
  }

  /// The tensor of a gradient of type T; none if that is void.
  template <class T, class Shape, class D>
  using gradient_of_table = typename std::conditional_t<std::is_void_v<T>, std::type_identity<not_saved>,
                                                        std::type_identity<tensor<T, Shape, D>>>::type;
  /// The gradients for a loss gradient of 1.
  template <class X, class Table>
  struct gradients {
    X dx;
    Table dtable;
    static constexpr std::size_t bytes = X::bytes + gradus::detail::bytes_of<Table>();
    constexpr auto parts() const { return std::tie(dx, dtable); }
  };

  template <class Call, class X, class Table, class Targets>
  constexpr auto forward(Call how, const X& x, const Table& table, const Targets& targets) const {
    using D = typename X::device;
    using DX = tensor<typename Call::template gradient<0>, typename X::shape, D>;
    constexpr bool table_learns = !std::is_void_v<typename Call::template gradient<1>>;
    using DTable = gradient_of_table<typename Call::template gradient<1>, typename Table::shape, D>;
    using loss_type = tensor<typename Call::reduce, shape<>, D>;
    auto& ctx = how.owner();
    for (index_t i = 0; i + 1 < X::rank; ++i)
      check_extents_meet(name, i, x.extents().extents[i], targets.extents().extents[i]);
    loss_type loss(ctx);
    tensor<logit<typename X::value_type, typename Call::accumulate>,
           shape<largest_chunk<X, Table>(), Table::shape::extent(0)>, D>
        logits(ctx, category::temporary);
    const index_t chunk = chunk_rows<X, Table>(rows_in(x.extents()));
    tensor<double, shape<rows_of<typename X::shape>>, D> row_losses(ctx, category::temporary);
    const auto run = [&](auto* dx, auto* dtable) {
      kernel<linear_cross_entropy, D>::forward(
          accumulate_in<typename Call::products>{}, ctx, ignore, as_matrix(x.extents()), as_matrix(logits.extents()),
          chunk, loss.data(), dx, dtable, logits.data(), row_losses.data(), x.data(), table.data(), targets.data());
    };
    if constexpr (Call::saves_statistics && !table_learns) {
      gradients<DX, DTable> kept{DX(ctx, x.extents()), {}};
      run(kept.dx.data(), static_cast<typename Call::reduce*>(nullptr));
      return with_statistics<loss_type, gradients<DX, DTable>>{std::move(loss), std::move(kept)};
    } else if constexpr (Call::saves_statistics) {
      gradients<DX, DTable> kept{DX(ctx, x.extents()), DTable(ctx, category::gradient)};
      constexpr index_t most_rows = rows_of<typename X::shape>;
      if constexpr (chunk_rows<X, Table>() < most_rows && is_rounded<typename DTable::value_type>) {
        // Several chunks' contributions to the table's gradient are summed in float and rounded once.
        tensor<compute_type<typename DTable::value_type>, typename Table::shape, D> sum(ctx, category::temporary);
        if (chunk < rows_in(x.extents())) {
          run(kept.dx.data(), sum.data());
          kernel<convert, D>::forward(ctx, kept.dtable.data(), std::as_const(sum).data(), Table::size, false);
          return with_statistics<loss_type, gradients<DX, DTable>>{std::move(loss), std::move(kept)};
        }
      }
      run(kept.dx.data(), kept.dtable.data());
      return with_statistics<loss_type, gradients<DX, DTable>>{std::move(loss), std::move(kept)};
    } else {
      run(static_cast<typename DX::value_type*>(nullptr), static_cast<typename Call::reduce*>(nullptr));
      return loss;
    }
  }
  template <class Saved, class Loss, class X, class Table, class Targets>
  constexpr void backward(const Saved& saved, Loss dloss, const gradient_sink<X>& dx,
                          const gradient_sink<Table>& dtable, const gradient_sink<Targets>&) const {
    auto [gx, gtable] = statistics(saved);  // the only owner, not read again: may be scaled in place
    const auto give = [&]<class G>(G& gradient, const auto& sink) {
      if constexpr (!std::is_same_v<G, not_saved>) {
        if (!sink) return;
        kernel<linear_cross_entropy, typename X::device>::backward(dloss.owner(), gradient.extents().size,
                                                                   gradient.data(), std::as_const(dloss).data());
        sink.give(std::move(gradient));
      }
    };
    give(gx, dx);
    give(gtable, dtable);
  }

 private:
  // The rows of logits that fit in the device's `chunk_bytes`.
  template <class X, class Table>
  static constexpr index_t fitting_rows() {
    using T = typename X::value_type;
    return X::device::chunk_bytes / (Table::shape::extent(0) * sizeof(logit<T, compute_type<T>>));
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Mean cross-entropy between rows of the logits x table^T and target classes, a scalar: x [..., C], table [V, C] (such
/// as a token table), targets [...]. Equals `cross_entropy<Vocabulary>(matmul<transpose{.b = true}>(x, table), targets,
/// ignore)`, but stores the logits of a chunk of rows only: of up to 128 MiB (on a GPU 1 GiB), or 128 rows if those are
/// more. ChunkRows sets the number of rows, such as fewer for a GPU with little memory. A recorded call computes the
/// gradients of x and table, and keeps both until backward. Throws gradus::error for targets outside 0 .. Vocabulary-1
/// other than `ignore` (on the CPU).
template <index_t Vocabulary = 0, index_t ChunkRows = 0, operand X, operand Table, operand Targets>
GRADUS_OF_BUILD constexpr auto linear_cross_entropy(X&& x, Table&& table, Targets&& targets, long long ignore = -1) {
  using sx = shape_of<X>;
  using st = shape_of<Table>;
  constexpr index_t rows = rows_of<st>, real = Vocabulary == 0 ? rows : Vocabulary;
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): x needs at least one axis, and table two",
                 sx::rank >= 1 && st::rank == 2)
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): x and table must be floating-point numbers",
                 is_floating<value_of_t<X>> && is_floating<value_of_t<Table>>)
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): targets must be integers",
                 std::is_integral_v<value_of_t<Targets>>)
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): no axis of the table is upto<N>",
                 detail::extents_are_in_the_type<st>)
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): columns of x must equal columns of table",
                 detail::columns_of_x_equal_columns_of_table<sx::extent_in_type(-1), st::extent_in_type(1)>)
  GRADUS_REQUIRE("linear_cross_entropy(x, table, targets): targets must have the shape of x without the last axis",
                 detail::targets_match_rows_of_x<leading_shape<sx, sx::rank - 1>, shape_of<Targets>>)
  GRADUS_REQUIRE("linear_cross_entropy<Vocabulary>(x, table, targets): Vocabulary must not exceed the rows of table",
                 detail::vocabulary_fits_rows_of_table<real, rows>)
  return apply(op::linear_cross_entropy<real, ChunkRows>{ignore}, std::forward<X>(x), std::forward<Table>(table),
               std::forward<Targets>(targets));
}

/// linear_cross_entropy with a reduction: `linear_cross_entropy<reduction::sum>(x, table, targets)` is the sum over the
/// rows whose target counts, the mean times count_targets(targets, ignore).
template <reduction R, index_t Vocabulary = 0, index_t ChunkRows = 0, operand X, operand Table, operand Targets>
GRADUS_OF_BUILD constexpr auto linear_cross_entropy(X&& x, Table&& table, const Targets& targets,
                                                    long long ignore = -1) {
  GRADUS_REQUIRE(
      "linear_cross_entropy<reduction>(x, table, targets): a mean or a sum, because the gradients are computed with it",
      R != reduction::none)
  if constexpr (R == reduction::mean)
    return linear_cross_entropy<Vocabulary, ChunkRows>(std::forward<X>(x), std::forward<Table>(table), targets, ignore);
  else
    return linear_cross_entropy<Vocabulary, ChunkRows>(std::forward<X>(x), std::forward<Table>(table), targets,
                                                       ignore) *
           count_targets(targets, ignore);
}

}  // namespace gradus
