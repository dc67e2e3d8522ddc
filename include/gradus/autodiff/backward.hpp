#pragma once
#include <tuple>
#include <utility>

#include "../tensor/creation.hpp"
#include "tape.hpp"

namespace gradus {

namespace detail {
template <class V, class R>
constexpr void seed_gradient(const traced<V, R>& loss, compute_type<typename V::value_type> scale) {
  static_assert(V::size == 1, "backward(loss): the loss must have exactly one element; reduce it with sum or mean");
  using T = typename V::value_type;
  if (loss.slot() != nullptr)
    loss.slot()->give(full<T, typename V::shape>(loss.recorder().owner(), static_cast<T>(scale), category::gradient));
}
}  // namespace detail

/// Adds d(scale * loss)/dp to the gradient of every parameter and variable that the loss depends on, and ends the recording.
template <class V, class R>
constexpr void backward(const traced<V, R>& loss, compute_type<typename V::value_type> scale = 1) {
  detail::seed_gradient(loss, scale);
  loss.recorder().unwind();
}

/// Backward from several losses of one recording at once: the gradients of their sum.
template <class... Losses>
constexpr void backward_all(const Losses&... losses) {
  (detail::seed_gradient(losses, 1), ...);
  std::get<0>(std::tie(losses...)).recorder().unwind();
}

/// The gradients of `loss` with respect to the given parameters and variables, as a tuple of tensors in their order. What
/// parameters had gathered before stays as it was; parameters that are not listed gather nothing only if they are not used.
template <class V, class R, class... Xs>
auto gradients(const traced<V, R>& loss, const Xs&... xs) {
  auto before = std::make_tuple(sink_slot(xs)->take()...);
  backward(loss);
  auto found = std::make_tuple(sink_slot(xs)->take()...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((std::get<I>(before) ? sink_slot(xs)->give(std::move(std::get<I>(before))) : void()), ...);
  }(std::index_sequence_for<Xs...>{});
  return found;
}

}  // namespace gradus
