#pragma once
// What a tape is made of: the nodes of one recording after another, and how they unwind. Recorders work with it, the
// tape itself and the checkpoint regions on it; users see tape.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

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
  /// Operands of `recorder`'s operations are its own, and of this recording. `call` names the operation.
  template <class R, class... Xs>
  constexpr void check_operands(const R& recorder, std::string_view call, const Xs&... xs) const {
    std::size_t operand = 0;
    (check_operand(recorder, call, ++operand, xs), ...);
  }
  /// Notes the parameters among these operands of the operation or region whose node comes next.
  template <class... Xs>
  constexpr void note_uses(const Xs&... xs) {
    if (observer_ != nullptr) (note_use(xs), ...);
  }
  /// Adds the node of an applied operation and gives its output to `recorder`; `maker` is its number there.
  template <class Products, class R, class Op, class Kept, class Result>
  constexpr auto attach(R& recorder, const Op& op, Kept kept, Result result, unsigned maker) {
    using Output = typename forward_result<Result>::output;
    Output& out = output_of(result);
    if constexpr (!is_floating<typename Output::value_type>) {
      return traced<Output, R>(std::move(out), &recorder, nullptr, era(), maker);
    } else {
      if (!kept.wanted()) return traced<Output, R>(std::move(out), &recorder, nullptr, era(), maker);
      auto saved = saved_of<Op, Products>(std::move(kept.inputs), result);
      note_all_saved(*ctx_, name_of(op), saved.inputs);
      note_saved(*ctx_, name_of(op), saved.output, saved.statistics);
      using Node = op_node<Op, Output, decltype(saved), decltype(kept.versions), decltype(kept.sinks)>;
      auto* n = push<Node>(op, std::move(saved), std::move(kept.versions), kept.sinks);
      n->backward = &Node::run;  // not in its constructor, so that messages about an operation's gradient are short
      return traced<Output, R>(std::move(out), &recorder, &n->slot, era(), maker);
    }
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
    n->previous = last_;
    last_ = n;
    ++count_;
    if (observer_ != nullptr) uses_.added(n);
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
  constexpr void clear() {
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
  template <class R, class X>
  constexpr void check_operand(const R& recorder, std::string_view call, std::size_t operand, const X& x) const {
    if constexpr (is_traced<std::remove_cvref_t<X>>) {
      if (&x.recorder() != &recorder)  // which throws where the recording of x is over
        throw error("apply: the operands were recorded on two different tapes; use one tape");
    } else {
      const origin from = origin_of(x);
      if (from == origin::gradient) fail_second_order(call, operand);
      if (is_tensor<X> && from == origin::parameter) fail_unrecorded_parameter(call, operand);
    }
  }

  template <class X>
  constexpr void note_use(const X& x) {
    if constexpr (is_param<X>) uses_.note(&x.slot());
    else if constexpr (is_computed_param<X>) uses_.note(&x.of->slot());
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
