#pragma once
#include <cstddef>
#include <tuple>
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
/// @tparam Sinks a std::tuple with a gradient_sink for each input
template <class Op, class Output, class Saved, class Versions, class Sinks>
struct op_node;
template <class Op, class Output, class Saved, class... Versions, class... Inputs>
struct op_node<Op, Output, Saved, std::tuple<Versions...>, std::tuple<gradient_sink<Inputs>...>> : node {
  Op op;
  Saved saved;
  [[no_unique_address]] std::tuple<Versions...> versions;
  std::tuple<gradient_sink<Inputs>...> sinks;
  gradient_slot<Output> slot;

  constexpr op_node(const Op& o, Saved s, std::tuple<Versions...> v, std::tuple<gradient_sink<Inputs>...> to)
      : op(o), saved(std::move(s)), versions(std::move(v)), sinks(to) {}

  static constexpr void run(node* n) {
    auto* self = static_cast<op_node*>(n);
    if (self->slot.value())
      self->run_backward(std::index_sequence_for<Inputs...>{});  // or no loss depends on this output
  }

 private:
  template <std::size_t... I>
  constexpr void run_backward(std::index_sequence<I...>) {
    (std::get<I>(versions).check(detail::name_of(op)), ...);
    auto gradient = slot.take();
    auto& ctx = gradient.owner();
    const typename std::remove_reference_t<decltype(ctx)>::running now(
        ctx, activity{detail::name_of(op), phase::backward, detail::backward_cost_of<Op, Inputs...>()});
    op.backward(saved, std::move(gradient), std::get<I>(sinks)...);
    if (ctx.observed_by() == nullptr) return;
    const auto tell = [&](const auto& sink, std::size_t number) {  // nvcc 13 expands no pack within a lambda
      sink.look([&](const auto& g) { detail::tell_computed(ctx, g, number); });
    };
    (tell(std::get<I>(sinks), I + 1), ...);
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
