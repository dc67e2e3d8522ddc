#pragma once
#include <cstddef>
#include <utility>

#include "../tensor/gradient_slot.hpp"
#include "run.hpp"

namespace gradus {

/// One entry of the tape: a function that pushes gradients back, and one that ends the entry. Plain function pointers,
/// so that a node is its captures and no more.
struct node {
  using function = void (*)(node*);
  function backward = nullptr;
  function destroy = nullptr;
  node* previous = nullptr;
};

/// One applied operation: what it kept, where its inputs' gradients go, and where its output's gradient accumulates.
/// @tparam Inputs the tensors in which the inputs' gradients accumulate
template <class Op, class Output, class Saved, class... Inputs>
struct op_node : node {
  Op op;
  Saved saved;
  detail::kept_version versions[sizeof...(Inputs)];
  any_slot* sinks[sizeof...(Inputs)];
  gradient_slot<Output> slot;

  constexpr op_node(const Op& o, Saved s) : op(o), saved(std::move(s)) {}

  static constexpr void run(node* n) {
    auto* self = static_cast<op_node*>(n);
    if (self->slot.value())
      self->run_backward(std::index_sequence_for<Inputs...>{});  // or no loss depends on this output
  }

 private:
  template <std::size_t... I>
  constexpr void run_backward(std::index_sequence<I...>) {
    for (const detail::kept_version& v : versions)
      if (v.was_changed()) detail::fail_changed_parameter(detail::name_of(op));
    auto gradient = slot.take();
    auto& ctx = gradient.owner();
    const typename context<typename Output::device>::running now(ctx, detail::name_of(op), phase::backward,
                                                                 detail::backward_cost<Op, Inputs...>);
    op.backward(saved, std::move(gradient), sink<Inputs>(I)...);
    if (ctx.observed_by() == nullptr) return;
    (tell(ctx, sink<Inputs>(I), I + 1), ...);
  }
  template <class X>
  constexpr gradient_sink<X> sink(std::size_t number) const {
    return gradient_sink<X>(static_cast<gradient_slot<X>*>(sinks[number]));
  }
  template <class Context, class X>
  static constexpr void tell(const Context& ctx, const gradient_sink<X>& to, std::size_t number) {
    if (to) detail::tell_computed(ctx, to.so_far(), number);
  }
};

/// A value whose own gradient is wanted; the tape finds it by the address of its slot.
struct leaf : node {
  const void* slot_address = nullptr;
};
template <class Value>
struct leaf_node : leaf {
  gradient_slot<Value> slot;
  constexpr leaf_node() { slot_address = &slot; }
};

}  // namespace gradus
