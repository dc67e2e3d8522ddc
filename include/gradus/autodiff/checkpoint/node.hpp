#pragma once
// A checkpoint region's node on the tape: the arguments and results that it keeps, and its replay at backward.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "../node.hpp"
#include "../observe.hpp"
#include "../tape.hpp"
#include "../traced.hpp"
#include "kept_results.hpp"
#include "log.hpp"
#include "offload.hpp"

namespace gradus::detail {

/// A traced argument, as the region keeps it.
template <class V>
struct region_argument {
  V value;
  gradient_slot<V>* slot;
};

/// An argument as the region keeps it: a parameter or state by address, any other by value.
template <class X>
constexpr auto keep_argument(X&& x) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (is_traced<raw>) {
    auto* slot = x.slot();
    return region_argument<tensor_of<raw>>{std::forward<X>(x).carried(), slot};
  } else if constexpr (is_model_tensor<raw>) {
    return &std::as_const(x);
  } else {
    return raw(std::forward<X>(x));
  }
}
/// Reports a kept argument to the context's observer.
template <class D, class Kept>
constexpr void notify_kept(const context<D>& ctx, const Kept& kept) {
  if (ctx.observed_by() == nullptr) return;
  if constexpr (requires { kept.slot; }) notify_saved(ctx, "checkpoint", kept.value);
  else notify_saved(ctx, "checkpoint", kept);
}

/// The outputs of a region's function as a tuple, also a single one.
template <class Output>
constexpr auto as_tuple(Output output) {
  if constexpr (is_tuple_like<Output>)
    return std::apply([](auto&&... y) { return std::tuple{std::forward<decltype(y)>(y)...}; }, std::move(output));
  else return std::tuple{std::move(output)};
}
/// Empty slots for the gradients of the outputs.
template <class... Ys>
constexpr std::tuple<gradient_slot<tensor_of<Ys>>...> slots_for(const std::tuple<Ys...>&) {
  return {};
}
/// Digest of the producers of the outputs.
template <class... Ys>
constexpr std::uint64_t digest_of_outputs(const std::tuple<Ys...>& outputs) {
  return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    std::uint64_t digest = 0;
    ((digest = next_digest(digest, std::get<Is>(outputs).producer())), ...);
    return digest;
  }(std::index_sequence_for<Ys...>{});
}

/// A checkpoint region on a tape: its function, its arguments and the results that it kept.
/// @tparam Region replays the function
/// @tparam Slots  a std::tuple with a gradient_slot for each output
template <class Region, class F, class Args, class Slots>
struct region_node : node {
  using tape_type = tape<typename Region::device>;

  Slots gradients;
  tape_type* on;
  F f;
  Args args;
  std::uint32_t draws;       // of the recording, before the region
  std::size_t first, count;  // its entries in the log
  std::uint64_t outputs;     // digest of their producers
  kept_results<typename Region::device> kept, extents;
  offload_group<typename Region::device> offloaded;  // of `kept`

  constexpr region_node(tape_type& of, F body, Args a, std::uint32_t draws_before, std::size_t first_entry,
                        std::size_t entries, std::uint64_t digest)
      : node{&run, nullptr, nullptr},
        on(&of),
        f(std::move(body)),
        args(std::move(a)),
        draws(draws_before),
        first(first_entry),
        count(entries),
        outputs(digest),
        offloaded(of, kept) {}
  region_node(const region_node&) = delete;
  region_node& operator=(const region_node&) = delete;
  constexpr ~region_node() {
    on->offloads_.remove(offloaded);
    on->regions_.entries.resize(first);
  }

  static constexpr void run(node* n) {
    auto* self = static_cast<region_node*>(n);
    self->replay(std::make_index_sequence<std::tuple_size_v<Slots>>{});
    self->on->unwind_to(self);
  }

 private:
  template <std::size_t... Is>
  constexpr void replay(std::index_sequence<Is...>) {
    if (!(static_cast<bool>(std::get<Is>(gradients).value()) || ...)) return;  // no loss depends on the region
    const typename tape_type::replaying now(*on, draws);
    on->offloads_.prepare_replay(offloaded);
    const auto ys = Region::replay(*on, f, args, first, count, outputs, std::move(kept), std::move(extents));
    (seed(std::get<Is>(ys), std::get<Is>(gradients)), ...);
  }
  template <class Y, class Slot>
  static constexpr void seed(const Y& y, Slot& slot) {
    if (y.slot() != nullptr && slot.value()) y.slot()->give(slot.take());
  }
};

}  // namespace gradus::detail
