#pragma once
// What a checkpoint region does with its operations, within a tape or within another region.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "kept_results.hpp"
#include "recording.hpp"
#include "region_node.hpp"
#include "save_policy.hpp"

namespace gradus::detail {

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

/// The operations of a checkpoint region, in the mode that it runs in: compiled once for tapes and regions alike.
template <class D>
class region_core {
 public:
  using recording = detail::recording<D>;
  enum class mode { forward, mute, again };

  constexpr region_core(recording& on, mode m, std::size_t first) : recording_(&on), mode_(m), first_(first) {}
  region_core(const region_core&) = delete;
  region_core& operator=(const region_core&) = delete;
  constexpr ~region_core() {
    if (mode_ == mode::forward) recording_->regions().graph.clear();
  }

  /// The tape's context, which gives the region its memory.
  constexpr context<D>& owner() const { return recording_->owner(); }
  /// What the tape under all regions works with.
  constexpr recording& recorded() const { return *recording_; }
  /// The tape's next key for a random operation. At backward the region gets the same ones again.
  constexpr random_key next_key() { return recording_->next_key(); }
  /// The value of operation `maker` is looked at outside of operations, and so has to be there at backward too: it is
  /// missing (`present` is false) if forward did not look at it. Called by traced::value().
  constexpr void note_read(unsigned maker, bool present) {
    if (mode_ == mode::forward) recording_->regions().read(maker);
    if (mode_ == mode::again && !present) fail_different_region();
  }

 protected:
  // ---- forward ------------------------------------------------------------------------------------------------------
  template <class Op, std::size_t N, class... Xs>
  constexpr auto applied(const Op& op, const operand_facts (&facts)[N], Xs&&... xs) {
    constexpr const void* key = &key_of<Op, tensor_of<Xs>...>;
    const std::uint64_t inputs = digest_of_operands(facts);
    if (mode_ == mode::again) return apply_again(key, inputs, op, facts, std::forward<Xs>(xs)...);
    check_present(facts);
    recording_->note_uses(facts);
    using Result = decltype(run<true>(owner(), phase::forward, op, std::forward<Xs>(xs)...));
    using Output = typename forward_result<Result>::output;
    constexpr bool has_statistics = !std::is_same_v<Result, Output>;
    const phase when = recording_->phase();
    bool keep = false;
    if (mode_ == mode::forward) {
      std::size_t bytes = Output::bytes;
      if constexpr (has_statistics) bytes += forward_result<Result>::statistics::bytes;
      keep =
          policy_->saves({name_of(op), family_of<Op>::type::name, count_, forward_cost<Op, tensor_of<Xs>...>, bytes});
      add_operation(recording_->regions(), key, inputs, keep, Op::saves.output || has_statistics, Op::saves.inputs,
                    facts);
    }
    ++count_;
    if (!keep) return recorded_value<Output>{run<false>(owner(), when, op, std::forward<Xs>(xs)...), nullptr};
    auto result = run<true>(owner(), when, op, std::forward<Xs>(xs)...);
    if (owner().observed_by() != nullptr) {
      note_saved(owner(), name_of(op), output_of(result));
      if constexpr (has_statistics) note_saved(owner(), name_of(op), result.statistics);
    }
    Output out = output_of(result);
    kept_.add(*recording_, key, first_ + count_ - 1, std::move(result));
    return recorded_value<Output>{std::move(out), nullptr};
  }
  // The region has run forward: what is not needed again goes.
  constexpr void decide(any_policy& policy) {
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
  constexpr void note_region(const void* key, std::span<const operand_facts> operands) {
    if (mode_ == mode::forward) {
      policy_->saves({"checkpoint", "checkpoint", count_, {}, 0});
      add_operation(recording_->regions(), key, digest_of_makers(operands), false, true, ~0u, operands);
    }
    ++count_;
  }
  // ---- at backward --------------------------------------------------------------------------------------------------
  constexpr fate next_entry(const void* key, std::uint64_t inputs) {
    if (count_ == expected_) fail_different_region();
    const region_entry& e = recording_->regions().entries[first_ + count_++];
    if (e.key != key || e.inputs != inputs) fail_different_region();
    return e.becomes;
  }
  template <class Op, std::size_t N, class... Xs>
  constexpr auto apply_again(const void* key, std::uint64_t inputs, const Op& op, const operand_facts (&facts)[N],
                             Xs&&... xs) {
    const fate f = next_entry(key, inputs);
    const auto compute = [&] { return run<true>(owner(), phase::recompute, op, std::forward<Xs>(xs)...); };
    using Result = decltype(compute());
    return recording_->record(
        std::make_index_sequence<N>{}, op, facts,
        [&] {
          Result result{};
          if (f == fate::compute) {
            check_present(facts);
            result = compute();
          }
          if (f == fate::take) {
            if (!kept_.next_is(key)) fail_different_region();
            result = kept_.template take<Result>();
          }
          return result;
        },
        xs...);
  }

  recording* recording_;
  mode mode_;
  any_policy* policy_ = nullptr;
  std::size_t first_;         // the region's first entry in the log
  std::size_t count_ = 0;     // operations applied so far
  std::size_t expected_ = 0;  // operations that were applied forward
  kept_results kept_;
};

}  // namespace gradus::detail
