#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "failures.hpp"
#include "kept_results.hpp"
#include "node.hpp"
#include "recording.hpp"

namespace gradus::detail {

/// A checkpoint region on the tape: its function, its arguments, and what of its results was kept.
/// @tparam Region what runs the function again
/// @tparam Slots  a std::tuple with a gradient_slot for each output
template <class Region, class F, class Args, class Slots>
struct region_node : node {
  using recording_type = typename Region::recording;

  Slots slots;
  recording_type* on;
  F f;
  Args args;
  std::uint32_t draws;       // before the region
  std::size_t first, count;  // its operations in the log
  std::uint64_t made;        // digest of the outputs
  kept_results kept;

  constexpr region_node(recording_type& of, F body, Args a, std::uint32_t draws_before, std::size_t first_entry,
                        std::size_t entries, std::uint64_t outputs)
      : node{&run, nullptr, nullptr},
        on(&of),
        f(std::move(body)),
        args(std::move(a)),
        draws(draws_before),
        first(first_entry),
        count(entries),
        made(outputs) {}
  region_node(const region_node&) = delete;
  region_node& operator=(const region_node&) = delete;
  constexpr ~region_node() { on->regions().entries.resize(first); }

  static constexpr void run(node* n) {
    auto* self = static_cast<region_node*>(n);
    self->run_again(std::make_index_sequence<std::tuple_size_v<Slots>>{});
    self->on->unwind_to(self);
  }

 private:
  template <std::size_t... I>
  constexpr void run_again(std::index_sequence<I...>) {
    if (!(static_cast<bool>(std::get<I>(slots).value()) || ...)) return;  // no loss depends on the region
    const typename recording_type::second_time now(*on, draws);
    const auto outputs = Region::run_again(*on, f, args, first, count, made, std::move(kept));
    (seed(std::get<I>(outputs), std::get<I>(slots)), ...);
  }
  template <class Y, class Slot>
  static constexpr void seed(const Y& y, Slot& slot) {
    if (y.slot() != nullptr && slot.value()) y.slot()->give(slot.take());
  }
};

}  // namespace gradus::detail
