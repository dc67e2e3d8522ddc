#pragma once
// The tape: records operations as nodes, unwinds them at backward, and numbers random draws.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/philox.hpp"
#include "../memory/context.hpp"
#include "../memory/poison.hpp"
#include "checkpoint/log.hpp"
#include "checkpoint/offload.hpp"
#include "failures.hpp"
#include "forward.hpp"
#include "node.hpp"
#include "observe.hpp"
#include "op.hpp"
#include "traced.hpp"

namespace gradus {

template <class Outer>
class region;

namespace detail {

template <class D>
class region_core;
template <class Region, class F, class Args, class Slots>
struct region_node;

template <class DeviceOfTape, class Device>
inline constexpr bool device_of_tape_is = std::is_same_v<DeviceOfTape, Device>;
template <class Temporary>
inline constexpr bool lasts_for_a_tape = false;
// The context in a program that a static_assert rejects, so that it is the only error.
template <class Context>
Context& no_context();

/// The output of a recorded operation, and the slot of its gradient; null if the output has none.
template <class Output>
struct recorded_value {
  Output value;
  gradient_slot<Output>* slot;
};

}  // namespace detail

/// Records operations, and unwinds them at backward(). A tape belongs to one context and is reused step after step;
/// once it has grown to the size of a step it allocates nothing on the heap.
///
/// It also numbers random draws: each operation that draws gets the key (seed, step, ordinal), so that a recomputation
/// draws the same numbers.
template <class D>
class tape {
 public:
  using device = D;

  constexpr explicit tape(context<D>& ctx, std::uint64_t seed = 0)
      : ctx_(&ctx), counter_(ctx.generations().take()), seed_(seed) {}
  template <class Other>
    requires(!std::is_same_v<D, Other>)
  constexpr explicit tape(context<Other>&, std::uint64_t = 0) : tape(detail::no_context<context<D>>()) {
    static_assert(detail::device_of_tape_is<D, Other>, "tape<Device>{ctx}: ctx must be a context of Device");
  }
  template <class Context = context<D>>
  constexpr explicit tape(const context<D>&&, std::uint64_t = 0) : tape(detail::no_context<Context>()) {
    static_assert(
        detail::lasts_for_a_tape<Context>,
        "tape{ctx}: ctx is a temporary context, which ends here; name it first: context ctx{stream, resource}");
  }
  tape(const tape&) = delete;
  tape& operator=(const tape&) = delete;
  constexpr ~tape() {
    clear();
    ctx_->generations().put(counter_);
  }

  /// Starts a recording from an input without a gradient.
  template <class T, class S>
  constexpr auto watch(tensor<T, S, D> x) {
    begin_if_unwound();
    if (x.storage().origin() == origin::gradient) detail::fail_second_order("tape.watch(x)", 1);
    return traced<tensor<T, S, D>, tape>(std::move(x), this, nullptr, generation());
  }
  /// Starts a recording from an input with a gradient: read it with `x.gradient()` after backward().
  template <class T, class S>
  constexpr auto variable(tensor<T, S, D> x) {
    static_assert(is_floating<T>, "tape.variable(x): only floating-point tensors have gradients");
    auto* leaf = push<leaf_node<tensor<T, S, D>>>();
    return traced<tensor<T, S, D>, tape>(std::move(x), this, &leaf->slot, generation());
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

  constexpr context<D>& owner() const { return *ctx_; }
  /// False while backward replays a checkpoint region, which calls its function again.
  constexpr bool is_forward() const { return phase_ == phase::forward; }
  constexpr std::size_t size() const { return count_; }  ///< operations, regions and variables of this recording
  /// Number of the current recording; see traced::generation().
  constexpr const unsigned& generation() const { return counter_.generation; }

  // ---- random draws -------------------------------------------------------------------------------------------------

  /// Key of the next random draw of this step.
  constexpr random_key next_key() { return {seed_, step_, ordinal_++, random_domain::tape}; }
  /// Sets the seed and the step of random draws; a resumed run passes the step that it resumes from.
  constexpr void set_random(std::uint64_t seed, std::uint32_t step) {
    if (unwound_) clear();  // otherwise the next recording would have step + 1
    seed_ = seed;
    step_ = step;
    ordinal_ = 0;
  }
  constexpr std::uint32_t step() const { return step_; }
  /// Number of recordings that have ended: the step of the next random draws.
  constexpr std::size_t recordings() const { return unwound_ ? step_ + 1 : step_; }
  /// Counts `n` recordings that ran elsewhere: launches of a captured graph.
  constexpr void advance(std::size_t n) { step_ += static_cast<std::uint32_t>(n); }

  // ---- recording ----------------------------------------------------------------------------------------------------

  /// Runs an operation, saves what it declares, and returns its output as a traced value. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    const detail::operand_facts facts[] = {detail::facts_of(xs)...};
    begin(this, detail::name_of(op), facts);
    detail::check_present(facts);
    add_uses(facts);
    const auto compute = [&] {
      return detail::run<true>(owner(), phase_, op, detail::stripped(std::forward<Xs>(xs))...);
    };
    return as_traced(push_op(std::index_sequence_for<Xs...>{}, op, facts, compute, detail::stripped(xs)...));
  }
  /// A checkpoint region or another part of a chain begins: the results that the region before it offloads are copied
  /// to host memory while the part runs. Called by checkpoint() and chain().
  constexpr void begin_part() {
    begin_if_unwound();
    offloads_.begin_part();
  }
  /// The part that begin_part() began ends: the stream waits for its copies to host memory, and the results' device
  /// memory is freed.
  constexpr void end_part() { offloads_.end_part(); }
  /// Discards the recording without backward; its values must not be used any more.
  GRADUS_NOINLINE constexpr void clear() {
    destroy_list(last_);
    destroy_list(leaves_);
    nodes_.rewind();
    regions_.clear();
    uses_.clear();
    observer_ = next_observer_;
    phase_ = phase::forward;
    count_ = 0;
    ordinal_ = 0;
    ++counter_.generation;
    unwound_ = false;
  }

  // ---- backward -----------------------------------------------------------------------------------------------------

  /// Notifies `who` of each parameter whose gradient is complete, in backward() of recordings that begin after this
  /// call. Null stops that at once, also for the current recording.
  constexpr void observe(gradient_observer* who) {
    next_observer_ = who;
    if (who != nullptr && last_ != nullptr) return;  // uses_ lacks the operations recorded so far
    observer_ = who;
    uses_.clear();
  }
  /// Runs the backward of all nodes, the last one first, and destroys each after its backward. Called by backward(). If
  /// one throws, the recording is cleared; parameters keep the gradients that they have by then.
  constexpr void unwind() {
    try {
      unwind_to(nullptr);
    } catch (...) {
      clear();
      throw;
    }
    unwound_ = true;
  }
  /// True if backward() can start from values of this generation.
  constexpr bool can_unwind(unsigned generation) const { return generation == counter_.generation && !unwound_; }
  /// True if `slot` belongs to a value of variable() in this generation, and this is the current one.
  constexpr bool holds_variable(const void* slot, unsigned generation) const {
    if (slot == nullptr || generation != counter_.generation) return false;
    for (const node* list : {last_, leaves_})
      for (const node* n = list; n != nullptr; n = n->previous)
        if (n->backward == nullptr && static_cast<const leaf*>(n)->slot_address == slot) return true;
    return false;
  }

 private:
  template <class>
  friend class region;
  template <class>
  friend class detail::region_core;
  template <class, class, class, class>
  friend struct detail::region_node;
  template <class>
  friend class detail::kept_results;
  template <class>
  friend class detail::offload_group;

  // The tape under all regions; a region has the same function.
  constexpr tape& root() { return *this; }

  // While it lives, a region is replayed: its operations are in phase recompute, and repeat the draws from
  // `first_draw` on.
  class replaying {
   public:
    constexpr replaying(tape& t, std::uint32_t first_draw)
        : tape_(&t), draws_(std::exchange(t.ordinal_, first_draw)), phase_(std::exchange(t.phase_, phase::recompute)) {}
    replaying(const replaying&) = delete;
    replaying& operator=(const replaying&) = delete;
    constexpr ~replaying() {
      tape_->ordinal_ = draws_;
      tape_->phase_ = phase_;
    }

   private:
    tape* tape_;
    std::uint32_t draws_;
    phase phase_;
  };

  // The first use after backward() starts a new recording, and a new step of random draws.
  constexpr void begin_if_unwound() {
    if (!unwound_) return;
    clear();
    ++step_;
  }
  // Begins an operation or region `call` of `recorder`, and checks its operands.
  GRADUS_NOINLINE constexpr void begin(const void* recorder, std::string_view call,
                                       std::span<const detail::operand_facts> operands) {
    begin_if_unwound();
    detail::check_operands(recorder, call, operands);
  }
  // Adds the trained parameters among the operands of the operation or region whose node is pushed next.
  GRADUS_NOINLINE constexpr void add_uses(std::span<const detail::operand_facts> operands) {
    if (observer_ == nullptr) return;
    for (const detail::operand_facts& o : operands)
      if (o.version != nullptr && o.slot != nullptr) uses_.add(o.slot);
  }
  // Runs an operation by `compute()` and pushes its node. `xs` are the operands without recorders; `facts`
  // describe them. (Called directly by recorders: messages about an operation's gradient are short.)
  template <std::size_t... Is, class Op, class Compute, class... Xs>
  constexpr auto push_op(std::index_sequence<Is...>, const Op& op, const detail::operand_facts* facts,
                         const Compute& compute, const Xs&... xs) {
    using detail::saves_input, detail::saved_or_not;
    // Saved before it runs, so that it does not overwrite them.
    const unsigned saves =
        detail::inputs_to_save<Op>(sizeof...(Is), [&](std::size_t i) { return facts[i].slot != nullptr; });
    using Inputs = detail::items<decltype(saved_or_not<saves_input<Op, Is>>(plain(xs)))...>;
    Inputs inputs{{saved_or_not<saves_input<Op, Is>>(plain(xs), detail::has_input(saves, Is))}...};
    const detail::items<extents_of<shape_of<Xs>>...> extents{{plain(xs).extents()}...};  // before it moves operands
    const detail::saved_version versions[] = {
        {facts[Is], detail::has_input(saves, Is) || detail::shares_elements<Op>()}...};
    auto result = compute();
    using Result = detail::forward_result<decltype(result)>;
    using Output = typename Result::output;
    using SavedOutput = std::conditional_t<Op::saves.output, Output, not_saved>;
    using Products = typename detail::call_rules<Op, Xs...>::products;
    using Saved = saved_values<Products, Inputs, SavedOutput, typename Result::statistics>;
    Output& out = detail::output_of(result);
    gradient_slot<Output>* slot = nullptr;
    if constexpr (is_floating<typename Output::value_type>) {
      if (((facts[Is].slot != nullptr) || ...)) {
        Saved saved{std::move(inputs), saved_or_not<Op::saves.output>(out), detail::statistics_of(result)};
        if (ctx_->observed_by() != nullptr) {
          (detail::notify_saved(*ctx_, detail::name_of(op), detail::get<Is>(saved.inputs)), ...);
          detail::notify_saved(*ctx_, detail::name_of(op), saved.output);
          detail::notify_saved(*ctx_, detail::name_of(op), saved.statistics);
        }
        using Node = op_node<Op, Output, Saved, detail::gradient_tensor_of<Xs>...>;
        auto* n = push<Node>(op, std::move(saved), extents);
        n->backward = &Node::run;  // not in its constructor, so that messages about an operation's gradient are short
        ((n->versions[Is] = versions[Is], n->sinks[Is] = facts[Is].slot), ...);
        slot = &n->slot;
      }
    }
    return detail::recorded_value<Output>{std::move(out), slot};
  }
  // Makes a T in the arena; in a constant expression, on the heap. `destroy` destroys it.
  template <class T, class... Args>
  constexpr T* place(Args&&... args) {
    T* made = nullptr;
    if (std::is_constant_evaluated()) {
      made = new T(std::forward<Args>(args)...);
      made->destroy = [](auto* dead) { delete static_cast<T*>(dead); };
    } else {
      static_assert(sizeof(T) <= arena::chunk_bytes && alignof(T) <= alignof(std::max_align_t));
      made = ::new (nodes_.allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
      made->destroy = [](auto* dead) {
        static_cast<T*>(dead)->~T();
        detail::poison(dead, sizeof(T));
      };
    }
    return made;
  }
  template <class Node, class... Args>
  constexpr Node* push(Args&&... args) {
    begin_if_unwound();
    Node* n = place<Node>(std::forward<Args>(args)...);
    add(n);
    return n;
  }
  GRADUS_NOINLINE constexpr void add(node* n) {
    n->previous = last_;
    last_ = n;
    ++count_;
    if (observer_ != nullptr) uses_.set_node(n);
  }
  // Unwinds the nodes after `stop`.
  constexpr void unwind_to(node* stop) {
    while (last_ != stop) {
      node* n = last_;
      const bool is_leaf = n->backward == nullptr;
      if (!is_leaf) n->backward(n);
      if (observer_ != nullptr) uses_.notify_complete(n, *observer_);
      last_ = n->previous;
      if (is_leaf) {  // a variable keeps its gradient until the tape is used again
        n->previous = leaves_;
        leaves_ = n;
      } else {
        n->destroy(n);
      }
    }
  }
  static constexpr void destroy_list(node*& list) {
    while (list != nullptr) {
      node* n = list;
      list = n->previous;
      n->destroy(n);
    }
  }
  template <class Output>
  constexpr traced<Output, tape> as_traced(detail::recorded_value<Output> by) {
    return {std::move(by.value), this, by.slot, generation()};
  }

  context<D>* ctx_;
  detail::generation_counter& counter_;
  arena nodes_;
  region_log regions_;
  detail::offload_list<D> offloads_;
  gradient_observer* observer_ = nullptr;
  gradient_observer* next_observer_ = nullptr;  // of recordings that have not begun
  detail::first_uses uses_;
  phase phase_ = phase::forward;
  node* last_ = nullptr;
  node* leaves_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t ordinal_ = 0;
  bool unwound_ = false;
};

}  // namespace gradus
