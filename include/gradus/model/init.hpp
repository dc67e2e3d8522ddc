#pragma once
// Gives the parameters and states of a model memory and starting values.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../core/philox.hpp"
#include "../core/shape_algebra.hpp"
#include "../tensor/creation.hpp"
#include "parameters.hpp"

namespace gradus {

/// Normal draws of one standard deviation (GPT-2: 0.02).
struct normal_init {
  std::uint64_t seed = 0;
  double stddev = 0.02;
  constexpr double deviation(index_t /*fan_in*/, index_t /*fan_out*/) const { return stddev; }
};

/// Normal draws with standard deviation sqrt(2 / fan_in), for ReLU-like activations (He et al. 2015, eq. 10).
struct he_normal {
  std::uint64_t seed = 0;
  double deviation(index_t fan_in, index_t /*fan_out*/) const { return std::sqrt(2.0 / static_cast<double>(fan_in)); }
};

/// Normal draws with standard deviation sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio 2010, eq. 16).
struct xavier_normal {
  std::uint64_t seed = 0;
  double deviation(index_t fan_in, index_t fan_out) const {
    return std::sqrt(2.0 / static_cast<double>(fan_in + fan_out));
  }
};

namespace detail {
template <class Kinds, class DeviceOfContext>
inline constexpr bool parameters_are_on = false;
template <class... T, class... D, class... G, class DeviceOfContext>
inline constexpr bool parameters_are_on<types<param_kind<T, D, G>...>, DeviceOfContext> =
    (std::is_same_v<D, DeviceOfContext> && ...);

template <class Devices, class DeviceOfContext>
inline constexpr bool states_are_on = false;
template <class... D, class DeviceOfContext>
inline constexpr bool states_are_on<types<D...>, DeviceOfContext> = (std::is_same_v<D, DeviceOfContext> && ...);

// Normal draws. The shape is no template parameter, so that each element type compiles it once.
template <class T>
GRADUS_OF_BUILD std::vector<T> normal_values(std::size_t n, random_key key, double deviation) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; i += 4) {
    const auto w = key.words(i / 4);
    const auto a = normal_pair(w[0], w[1]);
    const auto b = normal_pair(w[2], w[3]);
    const float draw[4] = {a[0], a[1], b[0], b[1]};
    for (std::size_t j = 0; j < 4 && i + j < n; ++j)
      values[i + j] = static_cast<T>(static_cast<compute_type<T>>(draw[j] * deviation));
  }
  return values;
}

// A buffer with the starting values of a parameter or state of `n` elements.
template <class T, class D>
GRADUS_OF_BUILD GRADUS_NOINLINE buffer<D> starting_values(context<D>& ctx, index_t n, category what, start from,
                                                          random_key key, double deviation) {
  buffer<D> made(ctx, n * sizeof(T), what);
  if (from == start::drawn || from == start::by_inputs)
    device_access<D>::upload(ctx, made.data(), normal_values<T>(n, key, deviation).data(), made.bytes());
  else fill(ctx, static_cast<T*>(made.data()), T(from == start::ones ? 1.0f : 0.0f), n);
  return made;
}

// Parameter or state number `ordinal` of a model. Their steps are two that no training run reaches.
template <class P, class D, class Rule>
GRADUS_OF_BUILD constexpr void init_tensor(P& p, context<D>& ctx, const Rule& rule, std::uint32_t ordinal) {
  using T = typename P::value_type;
  using S = typename P::shape;
  if constexpr (!D::computes) {
    p.set(empty<T, S>(ctx, P::memory_category));
  } else {
    const random_key key{rule.seed, is_param<P> ? 0xFFFFFFFFu : 0xFFFFFFFEu, ordinal};
    fans of{rows_of<S>, columns_of<S>};
    if constexpr (is_param<P>) of = p.start_fans();
    const bool by_inputs = p.starts() == start::by_inputs;
    const double deviation =
        p.start_scale() * (by_inputs ? 1 / std::sqrt(static_cast<double>(of.in)) : rule.deviation(of.in, of.out));
    p.set(typename P::tensor_type(starting_values<T>(ctx, S::size, P::memory_category, p.starts(), key, deviation)));
  }
}
}  // namespace detail

/// What init() and load() call after each parameter, unless they are given another function.
struct nothing_after {
  constexpr void operator()(auto&) const {}
};

/// Gives every parameter and state of the model memory from `ctx` and starting values. Calls after(parameter) for each
/// parameter that may be trained, before the next one's are made. Draws depend on the seed and on the parameter's
/// position in the model alone. Fan-in is the product of all extents but the last, and fan-out the last extent, unless
/// the parameter says otherwise (param::start_fans), as a convolution's does.
template <class Model, class D, class Rule, class After = nothing_after>
GRADUS_OF_BUILD constexpr void init(Model& model, context<D>& ctx, const Rule& rule, const After& after = {}) {
  using contents = detail::contents_of<Model>;
  constexpr bool on_one_device = detail::parameters_are_on<typename contents::kinds, D> &&
                                 detail::states_are_on<typename contents::state_devices, D>;
  static_assert(detail::parameters_are_on<typename contents::kinds, D>,
                "init(model, context, rule): the context must be of the device that the model's parameters are on");
  static_assert(detail::states_are_on<typename contents::state_devices, D>,
                "init(model, context, rule): the context must be of the device that the model's states are on");
  std::uint32_t ordinal = 0, state = 0;
  if constexpr (on_one_device) {
    visit_params(model, [&](auto& p) {
      detail::init_tensor(p, ctx, rule, ordinal++);
      if constexpr (std::remove_cvref_t<decltype(p)>::trains) after(p);
    });
    visit_states(model, [&](auto& s) { detail::init_tensor(s, ctx, rule, state++); });
  }
}

}  // namespace gradus
