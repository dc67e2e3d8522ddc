#pragma once
// What a tape is made of: the nodes of one recording after another, and how they unwind. Recorders work with it, the
// tape itself and the checkpoint regions on it; users see tape.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/philox.hpp"
#include "../memory/context.hpp"
#include "../memory/poison.hpp"
#include "arena.hpp"
#include "gradient_observer.hpp"
#include "node.hpp"
#include "operand.hpp"
#include "region_log.hpp"
#include "run.hpp"
#include "saved.hpp"

namespace gradus::detail {

/// What an applied operation gives: its output, and where the gradient of that accumulates, if anybody wants it.
template <class Output>
struct recorded_value {
  Output value;
  gradient_slot<Output>* slot;
};

/// The nodes of a tape's current recording, what its random draws depend on, and the log of its checkpoint regions.
template <class D>
class recording {
 public:
  constexpr recording(context<D>& ctx, std::uint64_t seed) : ctx_(&ctx), counter_(ctx.eras().take()), seed_(seed) {}
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;
  constexpr ~recording() {
    clear();
    ctx_->eras().put(counter_);
  }

  constexpr context<D>& owner() const { return *ctx_; }
  /// Where recordings are counted.
  constexpr const unsigned& era() const { return counter_.era; }
  constexpr std::size_t size() const { return count_; }
  constexpr bool is_unwound() const { return unwound_; }
  constexpr region_log& regions() { return regions_; }

  // ---- random draws and phases --------------------------------------------------------------------------------------

  constexpr random_key next_key() { return {seed_, step_, ordinal_++, random_domain::tape}; }
  /// Draws so far in this recording.
  constexpr std::uint32_t draws() const { return ordinal_; }
  constexpr std::uint32_t step() const { return step_; }
  /// The number that random keys of the recording under way have, or else those of the next one.
  constexpr std::uint32_t recordings() const { return unwound_ ? step_ + 1 : step_; }
  constexpr void advance(std::uint32_t n) { step_ += n; }
  constexpr void set_random(std::uint64_t seed, std::uint32_t step) {
    if (unwound_) clear();  // or the next recording would move on to step + 1
    seed_ = seed;
    step_ = step;
    ordinal_ = 0;
  }

  constexpr gradus::phase phase() const { return phase_; }
  /// While it lives, operations run for the second time: they are recomputed, and draw what draw number `first_draw`
  /// and those after it gave.
  class second_time {
   public:
    constexpr second_time(recording& r, std::uint32_t first_draw)
        : recording_(&r),
          draws_(std::exchange(r.ordinal_, first_draw)),
          phase_(std::exchange(r.phase_, gradus::phase::recompute)) {}
    second_time(const second_time&) = delete;
    second_time& operator=(const second_time&) = delete;
    constexpr ~second_time() {
      recording_->ordinal_ = draws_;
      recording_->phase_ = phase_;
    }

   private:
    recording* recording_;
    std::uint32_t draws_;
    gradus::phase phase_;
  };

  // ---- recording ----------------------------------------------------------------------------------------------------

  /// A new recording starts at the first use after backward(): the step that random draws depend on moves on.
  constexpr void begin_if_unwound() {
    if (!unwound_) return;
    clear();
    ++step_;
  }
  /// Begins an operation or region of `recorder`, named `call`: its operands are `recorder`'s own, and of this
  /// recording.
  GRADUS_NOINLINE constexpr void begin(const void* recorder, std::string_view call,
                                       std::span<const operand_facts> operands) {
    begin_if_unwound();
    check_operands(recorder, call, operands);
  }
  /// Notes the parameters among these operands of the operation or region whose node comes next.
  GRADUS_NOINLINE constexpr void note_uses(std::span<const operand_facts> operands) {
    if (observer_ == nullptr) return;
    for (const operand_facts& o : operands)
      if (o.version != nullptr) uses_.note(o.slot);
  }
  /// Applies an operation by `compute()`, and adds its node. The operands come without their recorders, and with the
  /// facts that they had with them. (Called directly by recorders: messages about an operation's gradient are short.)
  template <std::size_t... I, class Op, class Compute, class... Xs>
  constexpr auto record(std::index_sequence<I...>, const Op& op, const operand_facts* facts, const Compute& compute,
                        const Xs&... xs) {
    // Before it runs, so that nothing that is kept is overwritten.
    using Inputs = items<decltype(keep_if<saves_input<Op, I>>(plain(xs)))...>;
    Inputs inputs{{keep_if<saves_input<Op, I>>(plain(xs))}...};
    const kept_version versions[] = {{facts[I], saves_input<Op, I> || shares_elements<Op>()}...};
    auto result = compute();
    using Result = decltype(result);
    using Output = typename forward_result<Result>::output;
    using Kept = std::conditional_t<Op::saves.output, Output, not_saved>;
    using Products = typename call_rules<Op, Xs...>::products;
    using Saved = saved_values<Products, Inputs, Kept, typename forward_result<Result>::statistics>;
    Output& out = output_of(result);
    gradient_slot<Output>* slot = nullptr;
    if constexpr (is_floating<typename Output::value_type>) {
      if (((facts[I].slot != nullptr) || ...)) {
        Saved saved{std::move(inputs), keep_if<Op::saves.output>(out), statistics_of(result)};
        if (ctx_->observed_by() != nullptr) {
          (note_saved(*ctx_, name_of(op), get<I>(saved.inputs)), ...);
          note_saved(*ctx_, name_of(op), saved.output);
          note_saved(*ctx_, name_of(op), saved.statistics);
        }
        using Node = op_node<Op, Output, Saved, gradient_tensor_of<Xs>...>;
        auto* n = push<Node>(op, std::move(saved));
        n->backward = &Node::run;  // not in its constructor, so that messages about an operation's gradient are short
        ((n->versions[I] = versions[I], n->sinks[I] = facts[I].slot), ...);
        slot = &n->slot;
      }
    }
    return recorded_value<Output>{std::move(out), slot};
  }
  /// An object of T in the arena; in a constant expression, on the heap. `destroy` ends it.
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
        poison(dead, sizeof(T));
      };
    }
    return made;
  }
  /// Adds a node.
  template <class Node, class... Args>
  constexpr Node* push(Args&&... args) {
    begin_if_unwound();
    Node* n = place<Node>(std::forward<Args>(args)...);
    added(n);
    return n;
  }

  // ---- backward -----------------------------------------------------------------------------------------------------

  /// Runs all nodes backwards, each releasing what it kept as it goes.
  constexpr void unwind() {
    try {
      unwind_to(nullptr);
    } catch (...) {
      clear();
      throw;
    }
    unwound_ = true;
  }
  /// Unwinds what was recorded after `stop`.
  constexpr void unwind_to(node* stop) {
    while (last_ != stop) {
      node* n = last_;
      const bool is_leaf = n->backward == nullptr;
      if (!is_leaf) n->backward(n);
      if (observer_ != nullptr) uses_.done(n, *observer_);
      last_ = n->previous;
      if (is_leaf) {  // a leaf keeps its gradient until the tape is used again
        n->previous = leaves_;
        leaves_ = n;
      } else {
        n->destroy(n);
      }
    }
  }
  GRADUS_NOINLINE constexpr void clear() {
    destroy_list(last_);
    destroy_list(leaves_);
    nodes_.rewind();
    regions_.clear();
    uses_.clear();
    observer_ = next_observer_;
    phase_ = gradus::phase::forward;
    count_ = 0;
    ordinal_ = 0;
    ++counter_.era;
    unwound_ = false;
  }
  constexpr bool holds_variable(const void* slot, unsigned era) const {
    if (slot == nullptr || era != counter_.era) return false;
    for (const node* list : {last_, leaves_})
      for (const node* n = list; n != nullptr; n = n->previous)
        if (n->backward == nullptr && static_cast<const leaf*>(n)->slot_address == slot) return true;
    return false;
  }
  constexpr void observe(gradient_observer* who) {
    next_observer_ = who;
    if (who != nullptr && last_ != nullptr) return;  // uses before now were not noted
    observer_ = who;
    uses_.clear();
  }

 private:
  GRADUS_NOINLINE constexpr void added(node* n) {
    n->previous = last_;
    last_ = n;
    ++count_;
    if (observer_ != nullptr) uses_.added(n);
  }

  static constexpr void destroy_list(node*& list) {
    while (list != nullptr) {
      node* n = list;
      list = n->previous;
      n->destroy(n);
    }
  }

  context<D>* ctx_;
  era_counter& counter_;
  arena nodes_;
  region_log regions_;
  gradient_observer* observer_ = nullptr;
  gradient_observer* next_observer_ = nullptr;  // of the recordings to come
  first_uses uses_;
  gradus::phase phase_ = gradus::phase::forward;
  node* last_ = nullptr;
  node* leaves_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t seed_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t ordinal_ = 0;
  bool unwound_ = false;
};

}  // namespace gradus::detail
