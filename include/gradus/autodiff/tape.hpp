#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "recording.hpp"

namespace gradus {

namespace detail {
template <class DeviceOfTape, class Device>
inline constexpr bool device_of_tape_is = std::is_same_v<DeviceOfTape, Device>;
template <class Temporary>
inline constexpr bool lasts_for_a_tape = false;
// Stands in for the context in a program that does not compile, so that one error is all there is.
template <class Context>
Context& no_context();
}  // namespace detail

/// A recording of applied operations, unwound by backward(). A tape belongs to one context and is reused step after
/// step; once it has grown to the size of a step it asks the heap for nothing.
///
/// It also numbers what is random: each operation that draws gets the key (seed, step, ordinal), so that a
/// recomputation draws the same numbers.
template <class D>
class tape {
 public:
  using device = D;

  constexpr explicit tape(context<D>& ctx, std::uint64_t seed = 0) : recording_(ctx, seed) {}
  template <class Other>
    requires(!std::is_same_v<D, Other>)
  constexpr explicit tape(context<Other>&, std::uint64_t = 0) : recording_(detail::no_context<context<D>>(), 0) {
    static_assert(detail::device_of_tape_is<D, Other>, "tape<Device>{ctx}: ctx must be a context of Device");
  }
  template <class Context = context<D>>
  constexpr explicit tape(const context<D>&&, std::uint64_t = 0) : recording_(detail::no_context<Context>(), 0) {
    static_assert(
        detail::lasts_for_a_tape<Context>,
        "tape{ctx}: ctx is a temporary context, which ends here; name it first: context ctx{stream, resource}");
  }
  tape(const tape&) = delete;
  tape& operator=(const tape&) = delete;

  /// Starts a recording from an input: `x` takes part, and no gradient is kept for it.
  template <class T, class S>
  constexpr auto watch(tensor<T, S, D> x) {
    recording_.begin_if_unwound();
    if (x.storage().origin() == origin::gradient) detail::fail_second_order("tape.watch(x)", 1);
    return traced<tensor<T, S, D>, tape>(std::move(x), this, nullptr, recording_.era());
  }
  /// Starts a recording from an input whose gradient is wanted too: read it with `gradient()` after backward().
  template <class T, class S>
  constexpr auto variable(tensor<T, S, D> x) {
    static_assert(is_floating<T>, "tape.variable(x): only floating-point tensors have gradients");
    auto* leaf = recording_.template push<leaf_node<tensor<T, S, D>>>();
    return traced<tensor<T, S, D>, tape>(std::move(x), this, &leaf->slot, recording_.era());
  }

  template <class T, class S, class Other>
    requires(!std::is_same_v<D, Other>)
  constexpr void watch(const tensor<T, S, Other>&) {
    static_assert(detail::device_of_tape_is<D, Other>, "tape.watch(x): x must be on the tape's device");
  }
  template <class T, class S, class Other>
    requires(!std::is_same_v<D, Other>)
  constexpr void variable(const tensor<T, S, Other>&) {
    static_assert(detail::device_of_tape_is<D, Other>, "tape.variable(x): x must be on the tape's device");
  }

  constexpr context<D>& owner() const { return recording_.owner(); }
  constexpr std::size_t size() const { return recording_.size(); }  ///< of this recording: operations and variables

  /// Key of the next random draw of this step.
  constexpr random_key next_key() { return recording_.next_key(); }
  /// Sets what random draws depend on; a resumed run names the step it resumes from.
  constexpr void set_random(std::uint64_t seed, std::uint32_t step) { recording_.set_random(seed, step); }
  constexpr std::uint32_t step() const { return recording_.step(); }
  /// Recordings that are over: the step that the next random draws depend on.
  constexpr std::size_t recordings() const { return recording_.recordings(); }
  /// Goes on as after `n` recordings more, which somebody else made: a graph that was launched again.
  constexpr void advance(std::size_t n) { recording_.advance(static_cast<std::uint32_t>(n)); }

  /// Tells `who` of parameters whose gradients are complete, in backward() of the recordings that begin from now on.
  /// Null ends that at once, also in a recording that has begun.
  constexpr void observe(gradient_observer* who) { recording_.observe(who); }

  /// Applies an operation, keeps what it declares, and returns its output as a traced value. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    recording_.begin(this, detail::name_of(op), facts);
    detail::check_present(facts);
    recording_.note_uses(facts);
    const auto compute = [&] {
      return detail::run<true>(owner(), recording_.phase(), op, detail::stripped(std::forward<Xs>(xs))...);
    };
    return made(recording_.record(std::index_sequence_for<Xs...>{}, op, facts, compute, detail::stripped(xs)...));
  }

  /// Runs all recorded operations backwards, each releasing what it kept as it goes. Called by backward(). Should one
  /// throw, the recording is cleared; parameters keep what they accumulated until then.
  constexpr void unwind() { recording_.unwind(); }
  /// Forgets the recording without running it; values recorded so far must not be used any more.
  constexpr void clear() { recording_.clear(); }
  constexpr unsigned era() const { return recording_.era(); }
  /// True while backward() can start from values of recording `era`.
  constexpr bool can_unwind(unsigned era) const { return era == recording_.era() && !recording_.is_unwound(); }
  /// True when `slot` belongs to a value that variable() made in recording `era`, and that is still the tape's
  /// recording.
  constexpr bool holds_variable(const void* slot, unsigned era) const { return recording_.holds_variable(slot, era); }

  /// What recorders on this tape (checkpoint regions) work with.
  constexpr detail::recording<D>& recorded() { return recording_; }

 private:
  template <class Output>
  constexpr traced<Output, tape> made(detail::recorded_value<Output> by) {
    return {std::move(by.value), this, by.slot, recording_.era()};
  }

  detail::recording<D> recording_;
};

}  // namespace gradus
