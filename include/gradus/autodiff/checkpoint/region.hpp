#pragma once
// The recorder inside a checkpoint region. A region runs its function in one of three modes:
//
//   mode       when                                 an operation                                 its values have slots
//   record     the region is applied                runs; its result is kept if the policy       no
//                                                   says so and backward needs it
//   untracked  the region is applied inside a       runs                                         no
//              region that is not replayed
//   replay     at backward                          is recorded on the tape; it is computed,     yes
//                                                   taken from the kept results or skipped, as
//                                                   the log says
//
// The operations of a replay unwind at once, into the slots of the outer values, as if the tape had recorded them in
// place of the region.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../forward.hpp"
#include "../tape.hpp"
#include "../traced.hpp"
#include "core.hpp"
#include "kept_results.hpp"
#include "node.hpp"
#include "save_policy.hpp"

namespace gradus {

namespace detail {

template <class Recorder>
inline constexpr bool is_region = false;
template <class Outer>
inline constexpr bool is_region<region<Outer>> = true;

}  // namespace detail

/// The recorder of traced values in a checkpoint region. checkpoint() makes it.
/// @tparam Outer the recorder of the region: a tape or another region
template <class Outer>
class region : public detail::region_core<typename Outer::device> {
  using core = detail::region_core<typename Outer::device>;

 public:
  using typename core::device, typename core::mode;

  /// Applies an operation inside the region. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    detail::check_operands(this, detail::name_of(op), facts);
    return as_traced(this->applied(op, facts, detail::stripped(std::forward<Xs>(xs))...));
  }

  /// Runs `f` on the arguments as a region of `outer`. Called by checkpoint().
  template <class F, class... Xs>
  static constexpr auto enter(Outer& outer, detail::any_policy& policy, F f, Xs&&... xs) {
    tape<device>& on = outer.root();
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    on.begin(&outer, "checkpoint", facts);
    if constexpr (detail::is_region<Outer>) {
      constexpr const void* key = &detail::key_of<F, tensor_of<Xs>...>;
      if (outer.mode_ != Outer::mode::replay) {
        outer.add_nested(key, facts);
        return run_untracked(outer, f, std::forward<Xs>(xs)...);
      }
      outer.next_action(key, detail::digest_of_producers(facts));
    }
    std::tuple args{detail::keep_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    const std::uint32_t draws = on.ordinal_;
    const std::size_t first = on.regions_.entries.size();
    region inner(on, mode::record, first);
    inner.policy_ = &policy;
    on.begin_part();
    auto outputs = detail::as_tuple(inner.call(f, args));
    inner.decide(policy);
    bool learns = inner.learns_;
    for (const detail::operand_facts& fact : facts) learns = learns || fact.slot != nullptr;
    if (!learns) {  // there is no gradient to compute
      on.end_part();
      on.regions_.entries.resize(first);
      return leave(outer, std::move(outputs), static_cast<decltype(detail::slots_for(outputs))*>(nullptr));
    }
    std::apply([&](const auto&... kept) { (detail::notify_kept(on.owner(), kept), ...); }, args);
    const std::uint64_t digest = detail::digest_of_outputs(outputs);
    using Node = detail::region_node<region, F, decltype(args), decltype(detail::slots_for(outputs))>;
    Node* n = on.template push<Node>(on, std::move(f), std::move(args), draws, first, inner.count_, digest);
    n->kept = std::move(inner.kept_);
    n->extents = std::move(inner.extents_);
    on.end_part();
    on.offloads_.add(n->offloaded);
    return leave(outer, std::move(outputs), &n->gradients);
  }

  /// Runs `f` again on the arguments that the region kept, and returns its outputs. Throws error unless it applies the
  /// same `count` operations as forward and returns the same outputs. Called by the region's node.
  template <class F, class Args>
  static constexpr auto replay(tape<device>& on, const F& f, Args& args, std::size_t first, std::size_t count,
                               std::uint64_t digest, detail::kept_results<device> kept,
                               detail::kept_results<device> extents) {
    region inner(on, mode::replay, first);
    inner.expected_ = count;
    inner.kept_ = std::move(kept);
    inner.extents_ = std::move(extents);
    auto outputs = detail::as_tuple(inner.call(f, args));
    if (inner.count_ != count || detail::digest_of_outputs(outputs) != digest) detail::fail_different_region();
    return outputs;
  }

 private:
  template <class>
  friend class region;

  using core::core, core::mode_, core::count_, core::tape_, core::learns_;

  template <class Output>
  constexpr traced<Output, region> as_traced(detail::recorded_value<Output> by) {
    return {std::move(by.value), this, by.slot, tape_->generation(), static_cast<unsigned>(count_)};
  }
  template <class F, class... Xs>
  static constexpr auto run_untracked(Outer& outer, F& f, Xs&&... xs) {
    region inner(outer.root(), mode::untracked, 0);
    std::tuple args{detail::keep_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    auto outputs = detail::as_tuple(inner.call(f, args));
    outer.learns_ = outer.learns_ || inner.learns_;
    return leave(outer, std::move(outputs), static_cast<decltype(detail::slots_for(outputs))*>(nullptr));
  }

  // ---- arguments and outputs ----------------------------------------------------------------------------------------
  template <class V>
  constexpr traced<V, region> argument(detail::region_argument<V>& kept) {
    if (mode_ == mode::replay) return {std::move(kept.value), this, kept.slot, tape_->generation()};
    return {kept.value, this, nullptr, tape_->generation()};
  }
  template <class P>
  static constexpr const P& argument(const P* kept) {
    return *kept;
  }
  template <class T, class S>
  constexpr tensor<T, S, device> argument(tensor<T, S, device>& kept) {
    if (mode_ == mode::replay) return std::move(kept);
    return kept;
  }
  template <class F, class Args>
  constexpr auto call(const F& f, Args& args) {
    return std::apply([&](auto&... kept) { return f(argument(kept)...); }, args);
  }
  // The region's outputs as values of `outer`: a tuple if there are several.
  template <class... Ys, class Slots>
  static constexpr auto leave(Outer& outer, std::tuple<Ys...> outputs, Slots* gradients) {
    unsigned producer = 0;
    if constexpr (detail::is_region<Outer>) producer = static_cast<unsigned>(outer.count_);
    const auto one = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
      using V = std::tuple_element_t<At, std::tuple<tensor_of<Ys>...>>;
      gradient_slot<V>* slot = nullptr;
      if constexpr (is_floating<typename V::value_type>)
        if (gradients != nullptr) slot = &std::get<At>(*gradients);
      return traced<V, Outer>(std::move(std::get<At>(outputs)).carried(), &outer, slot, outer.root().generation(),
                              producer);
    };
    if constexpr (sizeof...(Ys) == 1) return one(std::integral_constant<std::size_t, 0>{});
    else
      return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
        return std::tuple{one(std::integral_constant<std::size_t, Is>{})...};
      }(std::index_sequence_for<Ys...>{});
  }
};

}  // namespace gradus
