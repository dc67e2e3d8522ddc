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

// One address for each operation on operands of given types.
template <class Op, class... Tensors>
inline constexpr char key_of = 0;

// A number that stands for what made these operands, in this order.
constexpr std::uint64_t digest_of_makers(std::span<const operand_facts> operands) {
  std::uint64_t digest = 0;
  for (const operand_facts& o : operands) digest = next_digest(digest, o.maker);
  return digest;
}
// The same, and for the versions of the parameters among them.
GRADUS_NOINLINE constexpr std::uint64_t digest_of_operands(std::span<const operand_facts> operands) {
  std::uint64_t digest = digest_of_makers(operands);
  for (const operand_facts& o : operands) digest += o.version == nullptr ? 0 : *o.version;
  return digest;
}
// Adds an operation on these operands to the region that runs forward.
GRADUS_NOINLINE constexpr void add_operation(region_log& log, const void* key, std::uint64_t inputs, bool kept,
                                             bool own_result, unsigned saved_inputs,
                                             std::span<const operand_facts> operands) {
  log.add(key, inputs, kept, own_result, saved_inputs);
  for (const operand_facts& o : operands) log.graph.makers.push_back(o.maker);
}

}  // namespace detail

/// The recorder of the traced values within a checkpoint region of `Outer`, which is a tape or another region.
/// checkpoint() makes it.
template <class Outer>
class region {
 public:
  using device = typename Outer::device;
  using recording = detail::recording<device>;
  enum class mode { forward, mute, again };

  region(const region&) = delete;
  region& operator=(const region&) = delete;
  constexpr ~region() {
    if (mode_ == mode::forward) recording_->regions().graph.clear();
  }

  /// The tape's context, which gives the region its memory.
  constexpr context<device>& owner() const { return recording_->owner(); }
  /// What the tape under all regions works with.
  constexpr recording& recorded() const { return *recording_; }
  /// The tape's next key for a random operation. At backward the region gets the same ones again.
  constexpr random_key next_key() { return recording_->next_key(); }
  /// The value of operation `maker` is looked at outside of operations, and so has to be there at backward too: it is
  /// missing (`present` is false) if forward did not look at it. Called by traced::value().
  constexpr void note_read(unsigned maker, bool present) {
    if (mode_ == mode::forward) recording_->regions().read(maker);
    if (mode_ == mode::again && !present) detail::fail_different_region();
  }

  /// Applies an operation inside the region. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    detail::check_operands(this, detail::name_of(op), facts);
    return made(applied(op, facts, detail::stripped(std::forward<Xs>(xs))...));
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

  constexpr region(recording& on, mode m, std::size_t first) : recording_(&on), mode_(m), first_(first) {}

  // ---- forward ------------------------------------------------------------------------------------------------------
  template <class Output>
  constexpr traced<Output, region> made(detail::recorded<Output> by) {
    return {std::move(by.value), this, by.slot, recording_->era(), static_cast<unsigned>(count_)};
  }
  template <class Op, std::size_t N, class... Xs>
  constexpr auto applied(const Op& op, const detail::operand_facts (&facts)[N], Xs&&... xs) {
    constexpr const void* key = &detail::key_of<Op, tensor_of<Xs>...>;
    const std::uint64_t inputs = detail::digest_of_operands(facts);
    if (mode_ == mode::again) return apply_again(key, inputs, op, facts, std::forward<Xs>(xs)...);
    detail::check_present(facts);
    recording_->note_uses(facts);
    using Result = decltype(detail::run<true>(owner(), phase::forward, op, std::forward<Xs>(xs)...));
    using Output = typename detail::forward_result<Result>::output;
    constexpr bool has_statistics = !std::is_same_v<Result, Output>;
    const phase when = recording_->phase();
    bool keep = false;
    if (mode_ == mode::forward) {
      std::size_t bytes = Output::bytes;
      if constexpr (has_statistics) bytes += detail::forward_result<Result>::statistics::bytes;
      keep = policy_->saves({detail::name_of(op), detail::family_of<Op>::type::name, count_,
                             detail::forward_cost<Op, tensor_of<Xs>...>, bytes});
      detail::add_operation(recording_->regions(), key, inputs, keep, Op::saves.output || has_statistics,
                            Op::saves.inputs, facts);
    }
    ++count_;
    if (!keep) return detail::recorded<Output>{detail::run<false>(owner(), when, op, std::forward<Xs>(xs)...), nullptr};
    auto result = detail::run<true>(owner(), when, op, std::forward<Xs>(xs)...);
    if (owner().observed_by() != nullptr) {
      detail::note_saved(owner(), detail::name_of(op), detail::output_of(result));
      if constexpr (has_statistics) detail::note_saved(owner(), detail::name_of(op), result.statistics);
    }
    Output out = detail::output_of(result);
    kept_.add(*recording_, key, first_ + count_ - 1, std::move(result));
    return detail::recorded<Output>{std::move(out), nullptr};
  }
  // The region has run forward: what is not needed again goes.
  constexpr void decide(detail::any_policy& policy) {
    if (const std::string_view name = policy.missing(); !name.empty()) fail_missing(name);
    policy.inspect(recording_->regions().graph);
    recording_->regions().decide(first_);
    kept_.drop_unless_taken(recording_->regions());
  }
  [[noreturn]] static void fail_missing(std::string_view name) {
    throw error("checkpoint<policy>: the policy names '" + std::string(name) +
                "', and the region applies nothing of that name");
  }
  // A region inside this one, which is not running again, is one operation to it, and keeps its arguments. The policy
  // hears of it, so that its numbers are those of the log, and has no say: there is no result to keep.
  constexpr void note_region(const void* key, std::span<const detail::operand_facts> operands) {
    if (mode_ == mode::forward) {
      policy_->saves({"checkpoint", "checkpoint", count_, {}, 0});
      detail::add_operation(recording_->regions(), key, detail::digest_of_makers(operands), false, true, ~0u, operands);
    }
    ++count_;
  }
  template <class F, class... Xs>
  static constexpr auto run_mute(Outer& outer, F& f, Xs&&... xs) {
    region inner(outer.recorded(), mode::mute, 0);
    std::tuple args{detail::keep_argument(detail::taken_operand(std::forward<Xs>(xs), xs...))...};
    auto outputs = detail::as_tuple(inner.call(f, args));
    return leave(outer, std::move(outputs), static_cast<decltype(detail::slots_for(outputs))*>(nullptr));
  }

  // ---- at backward --------------------------------------------------------------------------------------------------
  constexpr fate next_entry(const void* key, std::uint64_t inputs) {
    if (count_ == expected_) detail::fail_different_region();
    const region_entry& e = recording_->regions().entries[first_ + count_++];
    if (e.key != key || e.inputs != inputs) detail::fail_different_region();
    return e.becomes;
  }
  template <class Op, std::size_t N, class... Xs>
  constexpr auto apply_again(const void* key, std::uint64_t inputs, const Op& op,
                             const detail::operand_facts (&facts)[N], Xs&&... xs) {
    const fate f = next_entry(key, inputs);
    const auto compute = [&] { return detail::run<true>(owner(), phase::recompute, op, std::forward<Xs>(xs)...); };
    using Result = decltype(compute());
    return recording_->record(
        op, facts,
        [&] {
          Result result{};
          if (f == fate::compute) {
            detail::check_present(facts);
            result = compute();
          }
          if (f == fate::take) {
            if (!kept_.next_is(key)) detail::fail_different_region();
            result = kept_.template take<Result>();
          }
          return result;
        },
        xs...);
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

  recording* recording_;
  mode mode_;
  detail::any_policy* policy_ = nullptr;
  std::size_t first_;         // the region's first entry in the log
  std::size_t count_ = 0;     // operations applied so far
  std::size_t expected_ = 0;  // operations that were applied forward
  detail::kept_results kept_;
};

}  // namespace gradus
