#pragma once
// Norms over the channels of images and sequences [B, C, ...], as layers. X is gradus::on<device, precision>.

#include <string_view>
#include <tuple>
#include <utility>

#include "../core/config.hpp"
#include "../model/parameters.hpp"
#include "../ops/channel_norm/channel_norm.hpp"

namespace gradus::nn {

/// Normalises each channel, by the batch in training and by the running state in use, then scales and shifts it; see
/// gradus::batch_norm.
template <class X, index_t Channels>
struct batch_norm {
  param<X, Channels> weight{start::ones};
  param<X, Channels> bias;
  state<running_policy<X>, Channels> running_mean;
  state<running_policy<X>, Channels> running_var{start::ones};
  batch_norm_options options;
  GRADUS_MEMBERS(weight, bias, running_mean, running_var)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return gradus::batch_norm(std::forward<decltype(x)>(x), weight, bias, running_mean, running_var, options);
  }
};

/// Normalises each of Groups groups of channels of each sample, then scales and shifts each channel.
template <class X, index_t Groups, index_t Channels>
struct group_norm {
  param<X, Channels> weight{start::ones};
  param<X, Channels> bias;
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return gradus::group_norm<Groups>(std::forward<decltype(x)>(x), weight, bias);
  }
};

/// Normalises each channel of each sample, then scales and shifts it.
template <class X, index_t Channels>
struct instance_norm {
  param<X, Channels> weight{start::ones};
  param<X, Channels> bias;
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return gradus::instance_norm(std::forward<decltype(x)>(x), weight, bias);
  }
};

}  // namespace gradus::nn
