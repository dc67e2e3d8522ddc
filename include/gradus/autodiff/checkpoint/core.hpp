#pragma once
// How a checkpoint region runs one operation when it is recorded, untracked or replayed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../precision/policy.hpp"
#include "../failures.hpp"
#include "../forward.hpp"
#include "../tape.hpp"
#include "kept_results.hpp"
#include "save_policy.hpp"

namespace gradus::detail {

// Its address identifies an operation on operands of these types.
template <class Op, class... Tensors>
inline constexpr char key_of = 0;

// Digest of the producers of these operands.
constexpr std::uint64_t digest_of_producers(std::span<const operand_facts> operands) {
  std::uint64_t digest = 0;
  for (const operand_facts& o : operands) digest = next_digest(digest, o.producer);
  return digest;
}
// Digest of the producers of these operands and the versions of the parameters among them.
GRADUS_NOINLINE constexpr std::uint64_t digest_of_operands(std::span<const operand_facts> operands) {
  std::uint64_t digest = digest_of_producers(operands);
  for (const operand_facts& o : operands) digest += o.version == nullptr || o.state ? 0 : *o.version;
  return digest;
}
constexpr std::uint64_t versions_of_states(std::span<const operand_facts> operands) {
  std::uint64_t sum = 0;
  for (const operand_facts& o : operands) sum += o.state ? *o.version : 0;
  return sum;
}
// Adds an operation on these operands to the region that is being recorded.
GRADUS_NOINLINE constexpr void add_operation(region_log& log, const void* key, std::uint64_t inputs, bool kept,
                                             bool own_result, unsigned saved_inputs,
                                             std::span<const operand_facts> operands) {
  log.add(key, inputs, kept, own_result, saved_inputs);
  log.entries.back().states = versions_of_states(operands);
  for (const operand_facts& o : operands) log.graph.producers.push_back(o.producer);
}

/// The part of a region that does not depend on its outer recorder.
template <class D>
class region_core {
 public:
  using device = D;
  enum class mode { record, untracked, replay };

  constexpr region_core(tape<D>& on, mode m, std::size_t first) : tape_(&on), mode_(m), first_(first) {}
  region_core(const region_core&) = delete;
  region_core& operator=(const region_core&) = delete;
  constexpr ~region_core() {
    if (mode_ == mode::record) tape_->regions_.graph.clear();
  }

  /// The tape's context.
  constexpr context<D>& owner() const { return tape_->owner(); }
  /// See tape::is_forward().
  constexpr bool is_forward() const { return tape_->is_forward(); }
  /// The tape's next key for a random operation. A replay gets the same keys again.
  constexpr random_key next_key() { return tape_->next_key(); }
  /// The output of operation `producer` is read outside of operations, so a replay must compute it. Throws error if a
  /// replay reads a value (`present` is false) that forward did not read. Called by traced::value().
  constexpr void notify_read(unsigned producer, bool present) {
    if (mode_ == mode::record) tape_->regions_.read(producer);
    if (mode_ == mode::replay && !present) fail_different_region();
  }
  /// See tape::begin_part().
  constexpr void begin_part() {
    if (mode_ == mode::replay) tape_->begin_part();
  }
  constexpr void end_part() {
    if (mode_ == mode::replay) tape_->end_part();
  }

 protected:
  // The tape under all regions.
  constexpr tape<D>& root() const { return *tape_; }

  // ---- forward ------------------------------------------------------------------------------------------------------
  template <class Op, std::size_t N, class... Xs>
  constexpr auto applied(const Op& op, const operand_facts (&facts)[N], Xs&&... xs) {
    constexpr const void* key = &key_of<Op, tensor_of<Xs>...>;
    const std::uint64_t inputs = digest_of_operands(facts);
    if (mode_ == mode::replay) return replayed(key, inputs, op, facts, std::forward<Xs>(xs)...);
    check_present(facts);
    tape_->add_uses(facts);
    for (const operand_facts& fact : facts) learns_ = learns_ || fact.slot != nullptr;
    using Result = decltype(run<true>(owner(), phase::forward, op, std::forward<Xs>(xs)...));
    using Output = typename forward_result<Result>::output;
    constexpr bool has_statistics = !std::is_same_v<Result, Output>;
    const phase when = tape_->phase_;
    bool keep = false;
    bool offload = false;
    if (mode_ == mode::record) {
      std::size_t bytes = Output::bytes;
      if constexpr (has_statistics) bytes += forward_result<Result>::statistics::bytes;
      const region_op asked{name_of(op), family_of<Op>::type::name, count_, forward_cost<Op, Result, tensor_of<Xs>...>,
                            bytes};
      keep = policy_->saves(asked);
      offload = keep && policy_->offloads(asked);
      // Values of a region have no slots yet: each of them may get a gradient.
      const auto may_have_gradient = [&](std::size_t i) {
        return facts[i].slot != nullptr || facts[i].recorder != nullptr;
      };
      add_operation(tape_->regions_, key, inputs, keep, Op::saves.output || has_statistics,
                    inputs_to_save<Op>(N, may_have_gradient), facts);
    }
    ++count_;
    const auto keep_extents = [&]([[maybe_unused]] const Output& out) {
      if constexpr (Output::shape::bounded)
        if (mode_ == mode::record) extents_.add(*tape_, key, first_ + count_ - 1, out.extents());
    };
    if (!keep) {
      auto out = run<false>(owner(), when, op, std::forward<Xs>(xs)...);
      keep_extents(out);
      return recorded_value<Output>{std::move(out), nullptr};
    }
    auto result = run<true>(owner(), when, op, std::forward<Xs>(xs)...);
    if (owner().observed_by() != nullptr) {
      notify_saved(owner(), name_of(op), output_of(result));
      if constexpr (has_statistics) notify_saved(owner(), name_of(op), result.statistics);
    }
    Output out = output_of(result);
    keep_extents(out);
    kept_.add(*tape_, key, first_ + count_ - 1, std::move(result));
    if (offload) kept_.template offload_last<Result>();
    return recorded_value<Output>{std::move(out), nullptr};
  }
  // Ends forward: decides what a replay will do, and destroys the results that it will not take.
  constexpr void decide(any_policy& policy) {
    if (const std::string_view name = policy.missing(); !name.empty()) fail_missing(name);
    policy.inspect(tape_->regions_.graph);
    tape_->regions_.decide(first_);
    kept_.drop_unless_taken(tape_->regions_);
  }
  [[noreturn]] static void fail_missing(std::string_view name) {
    throw error("checkpoint<policy>: the policy names '" + std::string(name) +
                "', and the region applies nothing of that name");
  }
  // Adds a nested region, which counts as one operation that saves its arguments. The policy is asked, so that it
  // numbers operations as the log does; its answer has no effect, because a nested region has no result to keep.
  constexpr void add_nested(const void* key, std::span<const operand_facts> operands) {
    if (mode_ == mode::record) {
      policy_->saves({"checkpoint", "checkpoint", count_, {}, 0});
      add_operation(tape_->regions_, key, digest_of_producers(operands), false, true, ~0u, operands);
    }
    ++count_;
  }
  // ---- replay -------------------------------------------------------------------------------------------------------
  constexpr replay_action next_action(const void* key, std::uint64_t inputs) {
    if (count_ == expected_) fail_different_region();
    const region_entry& e = tape_->regions_.entries[first_ + count_++];
    if (e.key != key || e.inputs != inputs) fail_different_region();
    return e.action;
  }
  template <class Op, std::size_t N, class... Xs>
  constexpr auto replayed(const void* key, std::uint64_t inputs, const Op& op, const operand_facts (&facts)[N],
                          Xs&&... xs) {
    const replay_action action = next_action(key, inputs);
    // A state may be updated between, as long as neither the replay nor backward reads it.
    if ((action == replay_action::compute || Op::saves.inputs != 0) &&
        versions_of_states(facts) != tape_->regions_.entries[first_ + count_ - 1].states)
      fail_different_region();
    const auto compute = [&] { return run<true>(owner(), phase::recompute, op, std::forward<Xs>(xs)...); };
    using Result = decltype(compute());
    const auto result_of_replay = [&] {
      Result result{};
      using Output = typename forward_result<Result>::output;
      if constexpr (Output::shape::bounded) {
        if (!extents_.next_is(key)) fail_different_region();
        output_of(result) = Output({}, extents_.template take<extents_of<typename Output::shape>>());
      }
      if (action == replay_action::compute) {
        check_present(facts);
        result = compute();
      }
      if (action == replay_action::take) {
        if (!kept_.next_is(key)) fail_different_region();
        result = kept_.template take<Result>();
      }
      return result;
    };
    return tape_->push_op(std::make_index_sequence<N>{}, op, facts, result_of_replay, xs...);
  }

  tape<D>* tape_;
  mode mode_;
  any_policy* policy_ = nullptr;
  std::size_t first_;         // the region's first entry in the log
  std::size_t count_ = 0;     // operations applied so far
  std::size_t expected_ = 0;  // operations that forward applied
  bool learns_ = false;       // forward read a parameter that has a gradient
  kept_results<D> kept_;
  kept_results<D> extents_;  // of bounded results, also of those that are not kept
};

}  // namespace gradus::detail
