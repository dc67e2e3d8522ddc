#pragma once
// The layers of a transformer, as structs of parameters with `operator()(x) const` for traced and plain values. X is
// gradus::on<device, precision>.

#include <string_view>
#include <tuple>
#include <utility>

#include "../core/config.hpp"
#include "../model/parameters.hpp"
#include "../ops/elementwise/functions.hpp"
#include "../ops/embedding/embedding.hpp"
#include "../ops/layer_norm/layer_norm.hpp"
#include "../ops/matmul/matmul.hpp"
#include "../ops/rms_norm/rms_norm.hpp"
#include "adapter.hpp"

/// Layers: structs of parameters, and what goes with them.
namespace gradus::nn {

/// y = x w + b, from In to Out features.
template <class X, index_t In, index_t Out>
struct linear {
  linear_weight<X, In, Out> weight;
  param<X, Out> bias;
  [[no_unique_address]] adapter_slot<X, In, Out> adapter = {};
  GRADUS_MEMBERS(weight, bias, adapter)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return with_adapter(adapter, std::forward<decltype(x)>(x),
                        [this](auto&& v) { return gradus::linear(std::forward<decltype(v)>(v), weight, bias); });
  }
};

/// y = x w, from In to Out features.
template <class X, index_t In, index_t Out>
struct linear_without_bias {
  linear_weight<X, In, Out> weight;
  [[no_unique_address]] adapter_slot<X, In, Out> adapter = {};
  GRADUS_MEMBERS(weight, adapter)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return with_adapter(adapter, std::forward<decltype(x)>(x),
                        [this](auto&& v) { return gradus::linear(std::forward<decltype(v)>(v), weight); });
  }
};

/// Normalises the last axis to mean 0 and variance 1, then scales and shifts.
template <class X, index_t Width>
struct layer_norm {
  param<X, Width> weight{start::ones};
  param<X, Width> bias{};
  double eps = 1e-5;  ///< added to the variance
  GRADUS_MEMBERS(weight, bias)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x) const {
    return gradus::layer_norm(std::forward<decltype(x)>(x), weight, bias, eps);
  }
};

/// Divides the last axis by its root mean square, then scales.
template <class X, index_t Width>
struct rms_norm {
  param<X, Width> weight{start::ones};
  GRADUS_MEMBERS(weight)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& x, double eps = 1e-5) const {
    return gradus::rms_norm(std::forward<decltype(x)>(x), weight, eps);
  }
};

/// A table of Count rows of Width values: ids -> their rows.
template <class X, index_t Count, index_t Width>
struct embedding {
  param<X, Count, Width> weight;
  GRADUS_MEMBERS(weight)

  GRADUS_OF_BUILD constexpr auto operator()(const auto& ids) const { return gradus::embedding(ids, weight); }
};

}  // namespace gradus::nn
