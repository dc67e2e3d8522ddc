#pragma once
// The weight of a linear layer in 8 bits, which no training changes.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../model/parameters.hpp"
#include "../ops/quantized/quantized.hpp"

namespace gradus::nn {

/// A constant matrix [In, Out] in 8 bits: of each 64 adjacent elements of a row a scale, the largest magnitude / 127,
/// and codes of int8, which the scale multiplies. An element differs from the one that set() was given by half a scale
/// at most. It takes 1.0625 bytes an element. It starts as zeros.
/// @tparam X gradus::on<device, precision>: products are computed as this policy says
template <class X, index_t In, index_t Out>
struct quantized_weight {
  static_assert(Out % quantized_block == 0, "quantized_weight<X, In, Out>: Out must be a multiple of 64");
  using device = typename X::device;
  using shape = gradus::shape<In, Out>;
  using tensor_type = tensor<typename X::compute, shape, device>;

  state<constants<device, std::uint8_t>, In, Out> codes;  // the bits of int8
  state<constants<device, float>, In, Out / quantized_block> scales;
  GRADUS_MEMBERS(codes, scales)

  quantized_weight() = default;
  /// As a parameter is made; there is nothing to draw.
  constexpr explicit quantized_weight(start, double = 1) {}

  /// Rounds w. A block with an element that is not finite becomes NaN. Throws error before init().
  template <class T>
  GRADUS_OF_BUILD constexpr void set(const tensor<T, shape, device>& w) {
    auto& ctx = plain(codes).owner();
    kernel<op::quantize, device>::forward(ctx, codes.edit().data(), scales.edit().data(), w.data(), shape::size);
  }
  /// The elements, in the compute type.
  GRADUS_OF_BUILD constexpr tensor_type values() const {
    auto& ctx = plain(codes).owner();
    tensor_type w(ctx);
    kernel<op::dequantize, device>::forward(ctx, w.data(), codes.value().data(), scales.value().data(), shape::size);
    return w;
  }
};

namespace detail {
template <class M>
inline constexpr bool is_quantized = false;
template <class X, index_t In, index_t Out>
inline constexpr bool is_quantized<quantized_weight<X, In, Out>> = true;
struct quantized_only {
  template <class M>
  static constexpr bool takes = is_quantized<M>;
};
}  // namespace detail

/// Calls f(name, weight) for every quantized_weight of a model: `blocks.3.attention.query.weight`.
template <class Model, class F>
void for_each_quantized(Model& model, const F& f) {
  gradus::detail::for_each<detail::quantized_only>(model, f);
}

}  // namespace gradus::nn

namespace gradus {

/// y = x w + b for a weight in 8 bits: x [..., In], b [Out] -> [..., Out]. Without b: y = x w. The weight is in the
/// compute type while forward or backward multiply by it, and has no gradient.
template <operand Input, class X, index_t In, index_t Out, operand... B>
  requires(sizeof...(B) <= 1)
GRADUS_OF_BUILD constexpr auto linear(Input&& x, const nn::quantized_weight<X, In, Out>& w, const B&... b) {
  using sx = shape_of<Input>;
  using policy = typename X::precision;
  GRADUS_REQUIRE("linear(x, w): x must have two axes, with a bias one", sx::rank + sizeof...(B) >= 2)
  GRADUS_REQUIRE("linear(x, w): columns of x must equal rows of w",
                 detail::columns_of_x_equal_rows_of_w<sx::extent_in_type(-1), In>)
  GRADUS_REQUIRE("linear(x, w, b): b must have one axis, as long as the columns of w",
                 (std::is_same_v<shape_of<B>, shape<Out>> && ...))
  return apply(op::quantized_linear<typename policy::accumulate>{},
               cast<typename policy::compute>(std::forward<Input>(x)), w.codes, w.scales, b...);
}

}  // namespace gradus
