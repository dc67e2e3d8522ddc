#pragma once
// The recorder inside a checkpoint region. A region's function runs up to three times, each time on values of a region
// in one mode:
//
//   mode      runs                                   an operation                                its values have slots
//   forward   when the region is applied             runs, and its result is kept if the         no
//                                                    policy says so and backward will need it
//   mute      inside another region that is not      runs                                        no
//             running again
//   again     at backward                            is recorded on the tape like any other:     yes
//                                                    computed again, taken from what was kept,
//                                                    or skipped, as the log says
//
// What is recorded in `again` unwinds at once, into the slots that the outer values have, as if it had been recorded
// there in the first place.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kept_results.hpp"
#include "region_core.hpp"
#include "region_node.hpp"
#include "region_values.hpp"
#include "save_policy.hpp"
#include "tape.hpp"

namespace gradus {

template <class Outer>
class region;

namespace detail {

template <class Recorder>
inline constexpr bool is_region = false;
template <class Outer>
inline constexpr bool is_region<region<Outer>> = true;

}  // namespace detail

/// The recorder of the traced values within a checkpoint region of `Outer`, which is a tape or another region.
/// checkpoint() makes it.
template <class Outer>
class region : public detail::region_core<typename Outer::device> {
  using core = detail::region_core<typename Outer::device>;

 public:
  using device = typename Outer::device;
  using typename core::recording, typename core::mode;

  /// Applies an operation inside the region. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    detail::check_operands(this, detail::name_of(op), facts);
    return made(this->applied(op, facts, detail::stripped(std::forward<Xs>(xs))...));
  }

  /// Runs `f` on the arguments as a region of `outer`. Called by checkpoint().
  template <class F, class... Xs>
  static constexpr auto enter(Outer& outer, detail::any_policy& policy, F f, Xs&&... xs) {
    recording& on = outer.recorded();
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    on.begin(&outer, "checkpoint", facts);
    if constexpr (detail::is_region<Outer>) {
      constexpr const void* key = &detail::key_of<F, tensor_of<Xs>...>;
      if (outer.mode_ != Outer::mode::again) {
        outer.note_region(key, facts);
        return run_mute(outer, f, std::forward<Xs>(xs)...);
      }
      outer.next_entry(key, detail::digest_of_makers(facts));
    }
    std::tuple args{detail::keep_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    const std::uint32_t draws = on.draws();
    const std::size_t first = on.regions().entries.size();
    region inner(on, mode::forward, first);
    inner.policy_ = &policy;
    auto outputs = detail::as_tuple(inner.call(f, args));
    inner.decide(policy);
    std::apply([&](const auto&... kept) { (detail::note_argument(on.owner(), kept), ...); }, args);
    const std::uint64_t made = detail::digest_of_outputs(outputs);
    using Node = detail::region_node<region, F, decltype(args), decltype(detail::slots_for(outputs))>;
    Node* n = on.template push<Node>(on, std::move(f), std::move(args), draws, first, inner.count_, made);
    n->kept = std::move(inner.kept_);
    return leave(outer, std::move(outputs), &n->slots);
  }

  /// Runs `f` for the second time, on arguments that forward kept, and gives its outputs; what was kept of `count`
  /// operations is used up. Throws error if it does other things than before. Called by the region's node.
  template <class F, class Args>
  static constexpr auto run_again(recording& on, const F& f, Args& args, std::size_t first, std::size_t count,
                                  std::uint64_t made, detail::kept_results kept) {
    region inner(on, mode::again, first);
    inner.expected_ = count;
    inner.kept_ = std::move(kept);
    auto outputs = detail::as_tuple(inner.call(f, args));
    if (inner.count_ != count || detail::digest_of_outputs(outputs) != made) detail::fail_different_region();
    return outputs;
  }

 private:
  template <class>
  friend class region;

  using core::core, core::mode_, core::count_, core::recording_;

  // ---- forward ------------------------------------------------------------------------------------------------------
  template <class Output>
  constexpr traced<Output, region> made(detail::recorded_value<Output> by) {
    return {std::move(by.value), this, by.slot, recording_->era(), static_cast<unsigned>(count_)};
  }
  template <class F, class... Xs>
  static constexpr auto run_mute(Outer& outer, F& f, Xs&&... xs) {
    region inner(outer.recorded(), mode::mute, 0);
    std::tuple args{detail::keep_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    auto outputs = detail::as_tuple(inner.call(f, args));
    return leave(outer, std::move(outputs), static_cast<decltype(detail::slots_for(outputs))*>(nullptr));
  }

  // ---- arguments and outputs ----------------------------------------------------------------------------------------
  template <class V>
  constexpr traced<V, region> argument(detail::region_argument<V>& kept) {
    if (mode_ == mode::again) return {std::move(kept.value), this, kept.slot, recording_->era()};
    return {kept.value, this, nullptr, recording_->era()};
  }
  template <class P>
  static constexpr const P& argument(const P* kept) {
    return *kept;
  }
  template <class T, class S>
  constexpr tensor<T, S, device> argument(tensor<T, S, device>& kept) {
    if (mode_ == mode::again) return std::move(kept);
    return kept;
  }
  template <class F, class Args>
  constexpr auto call(const F& f, Args& args) {
    return std::apply([&](auto&... kept) { return f(argument(kept)...); }, args);
  }
  // The region's outputs as values of `outer`; one alone is not put in a tuple.
  template <class... Ys, class Slots>
  static constexpr auto leave(Outer& outer, std::tuple<Ys...> outputs, Slots* slots) {
    unsigned maker = 0;
    if constexpr (detail::is_region<Outer>) maker = static_cast<unsigned>(outer.count_);
    const auto one = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      using V = std::tuple_element_t<I, std::tuple<tensor_of<Ys>...>>;
      gradient_slot<V>* slot = nullptr;
      if constexpr (is_floating<typename V::value_type>)
        if (slots != nullptr) slot = &std::get<I>(*slots);
      return traced<V, Outer>(std::move(std::get<I>(outputs)).carried(), &outer, slot, outer.recorded().era(), maker);
    };
    if constexpr (sizeof...(Ys) == 1) return one(std::integral_constant<std::size_t, 0>{});
    else
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        return std::tuple{one(std::integral_constant<std::size_t, I>{})...};
      }(std::index_sequence_for<Ys...>{});
  }
};

}  // namespace gradus
