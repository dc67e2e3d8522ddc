#pragma once
// The values that go into a checkpoint region and come out of it.

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "operand.hpp"
#include "region_log.hpp"
#include "run.hpp"

namespace gradus::detail {

/// A traced argument, as it is kept until backward.
template <class V>
struct region_argument {
  V value;
  gradient_slot<V>* slot;
};

/// An argument as a region keeps it: parameters by address, everything else by value.
template <class X>
constexpr auto keep_argument(X&& x) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (is_traced<raw>) {
    auto* slot = x.slot();
    return region_argument<tensor_of<raw>>{std::forward<X>(x).carried(), slot};
  } else if constexpr (is_param<raw>) {
    return &std::as_const(x);
  } else {
    return raw(std::forward<X>(x));
  }
}
/// Tells who observes `ctx`, if anybody does, that a region keeps this argument.
template <class D, class Kept>
constexpr void note_argument(const context<D>& ctx, const Kept& kept) {
  if (ctx.observed_by() == nullptr) return;
  if constexpr (requires { kept.slot; }) note_saved(ctx, "checkpoint", kept.value);
  else note_saved(ctx, "checkpoint", kept);
}

/// A region's outputs as a tuple, however many its function returns.
template <class Made>
constexpr auto as_tuple(Made made) {
  if constexpr (is_tuple_like<Made>)
    return std::apply([](auto&&... y) { return std::tuple{std::forward<decltype(y)>(y)...}; }, std::move(made));
  else return std::tuple{std::move(made)};
}
/// Empty slots for the gradients of outputs.
template <class... Ys>
constexpr std::tuple<gradient_slot<tensor_of<Ys>>...> slots_for(const std::tuple<Ys...>&) {
  return {};
}
/// A number that stands for the operations that made these outputs.
template <class... Ys>
constexpr std::uint64_t digest_of_outputs(const std::tuple<Ys...>& outputs) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::uint64_t digest = 0;
    ((digest = next_digest(digest, std::get<I>(outputs).maker())), ...);
    return digest;
  }(std::index_sequence_for<Ys...>{});
}

}  // namespace gradus::detail
