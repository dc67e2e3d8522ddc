#pragma once
// Embedding: operation, shape rule and gradient.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// Rows of a table selected by tokens. Gradient: adds each output row's to the table row. Kernels: forward(ctx, matrix
/// of y, of the table, y, tokens, table); backward(ctx, matrix of dy, of the table, dtable, accumulate, dy, tokens).
struct embedding {
  static constexpr std::string_view name = "embedding";
  static constexpr unsigned rounds_operands = 0b10;
  static constexpr save_rule saves = save_inputs(0);
  static constexpr unsigned selected_operands = 0b10;

  template <class T, class Tokens, class Table>
  using output_type =
      tensor<T, joined_shape<typename Tokens::shape, shape<Table::shape::extent_in_type(1)>>, typename Table::device>;

  template <class Tokens, class Table>
  static constexpr flop_counts flops() {
    return {0, Tokens::size * Table::shape::extent(1)};
  }

  template <class Call, class Tokens, class Table>
  constexpr auto forward(Call how, const Tokens& tokens, const Table& table) const {
    auto& ctx = how.owner();
    output_type<typename Call::template result<typename Table::value_type>, Tokens, Table> y(
        ctx, joined_extents<shape<Table::shape::extent_in_type(1)>>(tokens.extents(), {table.extent(1)}));
    kernel<embedding, typename Table::device>::forward(ctx, as_matrix(y.extents()), as_matrix(table.extents()),
                                                       y.data(), tokens.data(), table.data());
    return y;
  }
  template <class Saved, class Y, class Tokens, class Table>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<Tokens>&,
                          const gradient_sink<Table>& dtable) const {
    if (!dtable) return;
    auto to = dtable.open_rows(dy.owner());
    kernel<embedding, typename Y::device>::backward(dy.owner(), as_matrix(dy.extents()), as_matrix(dtable.extents()),
                                                    to.tensor.data(), to.accumulate, std::as_const(dy).data(),
                                                    input<0>(saved).data());
    if constexpr (Y::device::host_addressable && Y::device::computes)
      if (touched_rows* const rows = dtable.rows())
        for (const auto token : input<0>(saved).values()) rows->add(static_cast<index_t>(token));
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Looks tokens up in a table: tokens [...] of any integer type, table [V, C] -> [..., C].
/// Throws gradus::error for a token outside 0 .. V-1 (on the CPU).
template <operand Tokens, operand Table>
GRADUS_OF_BUILD constexpr auto embedding(Tokens&& tokens, Table&& table) {
  constexpr bool integers = std::is_integral_v<value_of_t<Tokens>>;
  constexpr bool matrix = shape_of<Table>::rank == 2;
  GRADUS_REQUIRE("embedding(tokens, table): tokens must be integers", integers)
  GRADUS_REQUIRE("embedding(tokens, table): the table must have two axes", matrix)
  return apply(op::embedding{}, std::forward<Tokens>(tokens), std::forward<Table>(table));
}

}  // namespace gradus
