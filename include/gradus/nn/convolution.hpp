#pragma once
// Convolutions as layers: structs of parameters with `operator()(x) const` for traced and plain values. X is
// gradus::on<device, precision>.

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/per_axis.hpp"
#include "../model/parameters.hpp"
#include "../ops/conv/conv.hpp"
#include "../ops/conv/conv_transpose.hpp"

namespace gradus::nn {

/// The last argument of a layer without a bias: `conv2d<X, 64, 64, 3, conv{.padding = 1}, no_bias>`.
inline constexpr bool no_bias = false;

namespace detail {
struct no_parameter {};
template <bool Bias, class X, index_t Count>
using bias_if = std::conditional_t<Bias, param<X, Count>, no_parameter>;

template <index_t Groups, index_t Channels>
inline constexpr bool groups_divide_channels = Groups > 0 && Channels % (Groups > 0 ? Groups : 1) == 0;
// The channels of each group.
template <index_t Groups, index_t Channels>
constexpr index_t channels_of_a_group() {
  static_assert(groups_divide_channels<Groups, Channels>,
                "nn::conv1d, conv2d, conv_transpose2d: groups must divide the channels, In and Out");
  if constexpr (groups_divide_channels<Groups, Channels>) return Channels / Groups;
  else return Channels;
}
}  // namespace detail

/// gradus::conv2d with Out filters of Kernel elements (per_axis: `3` is {3, 3}): [B, In, H, W] -> [B, Out, Ho, Wo].
template <class X, index_t In, index_t Out, per_axis Kernel, conv Options = conv{}, bool Bias = true>
struct conv2d {
  static constexpr index_t depth = detail::channels_of_a_group<Options.groups, In>(), taps = Kernel.y * Kernel.x;
  param<X, Out, depth, Kernel.y, Kernel.x> weight{start::drawn, 1, fans{depth * taps, Out* taps}};
  [[no_unique_address]] detail::bias_if<Bias, X, Out> bias;
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    if constexpr (Bias) return gradus::conv2d<Options>(std::forward<decltype(x)>(x), weight, bias);
    else return gradus::conv2d<Options>(std::forward<decltype(x)>(x), weight);
  }
};

/// gradus::conv1d with Out filters of Kernel elements: [B, In, L] -> [B, Out, Lo].
template <class X, index_t In, index_t Out, index_t Kernel, conv Options = conv{}, bool Bias = true>
struct conv1d {
  static constexpr index_t depth = detail::channels_of_a_group<Options.groups, In>();
  param<X, Out, depth, Kernel> weight{start::drawn, 1, fans{depth * Kernel, Out* Kernel}};
  [[no_unique_address]] detail::bias_if<Bias, X, Out> bias;
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    if constexpr (Bias) return gradus::conv1d<Options>(std::forward<decltype(x)>(x), weight, bias);
    else return gradus::conv1d<Options>(std::forward<decltype(x)>(x), weight);
  }
};

/// gradus::conv_transpose2d to Out channels: [B, In, H, W] -> [B, Out, Ho, Wo].
template <class X, index_t In, index_t Out, per_axis Kernel, conv_transpose Options = conv_transpose{},
          bool Bias = true>
struct conv_transpose2d {
  static constexpr index_t width = detail::channels_of_a_group<Options.groups, Out>(), taps = Kernel.y * Kernel.x;
  param<X, In, width, Kernel.y, Kernel.x> weight{
      start::drawn, 1, fans{detail::channels_of_a_group<Options.groups, In>() * taps, Out* taps}};
  [[no_unique_address]] detail::bias_if<Bias, X, Out> bias;
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    if constexpr (Bias) return gradus::conv_transpose2d<Options>(std::forward<decltype(x)>(x), weight, bias);
    else return gradus::conv_transpose2d<Options>(std::forward<decltype(x)>(x), weight);
  }
};

}  // namespace gradus::nn
