#pragma once
// backward(loss) and gradients(loss, x...): start backward, and return gradients; detach(x) ends them.

#include <cstddef>
#include <tuple>
#include <utility>

#include "../tensor/creation.hpp"
#include "tape.hpp"
#include "traced.hpp"

namespace gradus {

namespace detail {

// True for a tape, false for a checkpoint region.
template <class Recorder>
inline constexpr bool backward_starts_from = requires(const Recorder& r) { r.can_unwind(0u); };

template <class V, class R>
constexpr void check_recording(const traced<V, R>& loss) {
  if (!loss.recorder().can_unwind(loss.generation()))
    throw error(
        "backward(loss): the loss belongs to a recording that backward() or clear() has ended; compute it again");
}
template <class V, class R>
constexpr void seed_gradient(const traced<V, R>& loss, compute_type<typename V::value_type> scale) {
  using T = typename V::value_type;
  if (loss.slot() != nullptr)
    loss.slot()->give(full<T, typename V::shape>(loss.recorder().owner(), static_cast<T>(scale), category::gradient));
}
template <class R, class Seed>
constexpr void seed_and_unwind(R& recorder, const Seed& seed) {
  try {
    seed();
  } catch (...) {  // or a later backward() would find a seeded slot
    recorder.clear();
    throw;
  }
  recorder.unwind();
}

}  // namespace detail

/// Adds d(scale * loss)/dp to the gradient of every parameter and variable p that the loss depends on, and ends the
/// recording. Throws error if the loss belongs to a recording that has ended, and out_of_memory; then the recording has
/// ended and parameters may hold a part of their gradients: clear them.
template <class V, class R>
constexpr void backward(const traced<V, R>& loss, compute_type<typename V::value_type> scale = 1) {
  static_assert(detail::is_one_element<typename V::shape>,
                "backward(loss): the loss must have exactly one element; reduce it with sum or mean");
  static_assert(detail::backward_starts_from<R>,
                "backward(loss): the loss is a value within a checkpoint region; return it from the region first");
  if constexpr (detail::is_one_element<typename V::shape> && detail::backward_starts_from<R>) {
    detail::check_recording(loss);
    detail::seed_and_unwind(loss.recorder(), [&] { detail::seed_gradient(loss, scale); });
  }
}

/// Does not compile: a loss that was not recorded has no gradients.
template <class T, class Shape, class D>
constexpr void backward(const tensor<T, Shape, D>&, double = 1) {
  static_assert(
      sizeof(T) == 0,
      "backward(loss): the loss was not recorded; compute it from tape.watch(x) or tape.variable(x) (a gradient "
      "is a constant, because there are no second derivatives in reverse: docs/guide/derivatives.md)");
}

/// Backward from the sum of several losses of one recording. Throws as backward() does.
template <class V, class R, class... Losses>
constexpr void backward_all(const traced<V, R>& loss, const Losses&... losses) {
  static_assert(detail::is_one_element<typename V::shape> && (detail::is_one_element<typename Losses::shape> && ...),
                "backward_all(losses...): each loss must have exactly one element; reduce it with sum or mean");
  R& recorder = loss.recorder();
  if (((&losses.recorder() != &recorder) || ...))
    throw error("backward_all: the losses were recorded on two different tapes; use one tape");
  detail::check_recording(loss);
  (detail::check_recording(losses), ...);
  detail::seed_and_unwind(recorder, [&] {
    detail::seed_gradient(loss, 1);
    (detail::seed_gradient(losses, 1), ...);
  });
}

namespace detail {

// The slot of the gradient of a parameter or variable; null for a variable whose recording has ended, because its slot
// no longer exists.
template <class X>
constexpr gradient_slot<gradient_tensor_of<X>>* find_slot_of_leaf(const X& x) {
  static_assert(is_param<X> || is_traced<X>,
                "gradients(loss, x...): each x must be a parameter or a value made by tape.variable()");
  if constexpr (is_traced<X>)
    return x.is_current() && x.recorder().holds_variable(x.slot(), x.generation()) ? x.slot() : nullptr;
  else return &x.slot();
}
template <class X>
constexpr gradient_slot<gradient_tensor_of<X>>& slot_of_leaf(const X& x) {
  gradient_slot<gradient_tensor_of<X>>* slot = find_slot_of_leaf(x);
  if (slot == nullptr)
    throw error("gradients(loss, x...): each x must be a parameter or come from tape.variable() in this recording");
  return *slot;
}

// Replaces the slots of parameters and variables by empty ones while it lives. If backward() throws, the recording ends
// and the slots of its variables no longer exist, so the destructor looks up each slot again.
template <class... Xs>
class gradients_set_aside {
 public:
  constexpr explicit gradients_set_aside(const Xs&... leaves) : leaves_(&leaves...) {
    (static_cast<void>(slot_of_leaf(leaves)), ...);  // throws before a slot is moved
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      ((std::get<Is>(before_) = std::exchange(slot_of_leaf(leaves), {})), ...);
    }(std::index_sequence_for<Xs...>{});
  }
  gradients_set_aside(const gradients_set_aside&) = delete;
  gradients_set_aside& operator=(const gradients_set_aside&) = delete;
  constexpr ~gradients_set_aside() {
    // From the last to the first: of a variable that is listed twice, the first entry has the slot.
    [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      (put_back(*std::get<sizeof...(Xs) - 1 - Is>(leaves_), std::get<sizeof...(Xs) - 1 - Is>(before_)), ...);
    }(std::index_sequence_for<Xs...>{});
  }

 private:
  template <class X>
  static constexpr void put_back(const X& x, gradient_slot<gradient_tensor_of<X>>& before) {
    if (auto* slot = find_slot_of_leaf(x)) *slot = std::move(before);
  }

  std::tuple<const Xs*...> leaves_;
  std::tuple<gradient_slot<gradient_tensor_of<Xs>>...> before_;
};

template <class Tensor>
constexpr Tensor gradient_or_zeros(gradient_slot<Tensor>& slot, const extents_of<typename Tensor::shape>& extents,
                                   context<typename Tensor::device>& ctx) {
  if (!slot.value())
    slot.give(zeros<typename Tensor::value_type, typename Tensor::shape>(ctx, extents, category::gradient));
  return slot.marked();
}

}  // namespace detail

/// The gradients of `loss` with respect to parameters and variables, as a tuple of tensors in their order; zeros for
/// those that the loss does not depend on. It ends the recording as backward() does. The gradients that `xs` had before
/// stay unchanged, also if it throws; other parameters accumulate as in backward().
///
/// Second derivatives are not supported in reverse (forward they are: docs/guide/derivatives.md): the results are plain
/// tensors. A recording throws error if an operand or input
/// is a gradient (of this function or of x.gradient()) or was computed from one; detach() makes a constant of it.
template <class V, class R, class... Xs>
constexpr std::tuple<detail::gradient_tensor_of<Xs>...> gradients(const traced<V, R>& loss, const Xs&... xs) {
  const detail::gradients_set_aside<Xs...> aside(xs...);
  auto& ctx = loss.recorder().owner();
  backward(loss);
  return {detail::gradient_or_zeros(detail::slot_of_leaf(xs), plain(xs).extents(), ctx)...};
}

/// Does not compile: a tensor, such as a gradient, has no gradients.
template <class T, class Shape, class D, class... Xs>
constexpr std::tuple<detail::gradient_tensor_of<Xs>...> gradients(const tensor<T, Shape, D>&, const Xs&...) {
  static_assert(
      sizeof(T) == 0,
      "gradients(loss, x...): the loss was not recorded; compute it from tape.watch(x) or tape.variable(x) (a "
      "gradient is a constant, because there are no second derivatives in reverse: docs/guide/derivatives.md)");
  return {};
}

/// The value of a tensor, parameter or traced value as a constant that shares its elements. No gradient flows through
/// it.
template <operand X>
constexpr tensor_of<X> detach(const X& x) {
  tensor_of<X> value = plain(x);
  value.storage().mark(origin::any);
  return value;
}

}  // namespace gradus
