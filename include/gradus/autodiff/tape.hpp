#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/error.hpp"
#include "../core/philox.hpp"
#include "../memory/context.hpp"
#include "arena.hpp"
#include "gradient_observer.hpp"
#include "node.hpp"
#include "operand.hpp"
#include "region_log.hpp"
#include "run.hpp"
#include "saved.hpp"

namespace gradus {

namespace detail {
template <class DeviceOfTape, class Device>
inline constexpr bool device_of_tape_is = std::is_same_v<DeviceOfTape, Device>;
template <class Temporary>
inline constexpr bool lasts_for_a_tape = false;
}  // namespace detail

/// A recording of applied operations, unwound by backward(). A tape belongs to one context and is reused step after step;
/// once it has grown to the size of a step it asks the heap for nothing.
///
/// It also numbers what is random: each operation that draws gets the key (seed, step, ordinal), so that a recomputation
/// draws the same numbers.
template <class D>
class tape {
 public:
  using device = D;

  constexpr explicit tape(context<D>& ctx, std::uint64_t seed = 0)
      : ctx_(&ctx), counter_(&ctx.eras().take()), seed_(seed) {}
  template <class Other>
    requires(!std::is_same_v<D, Other>)
  constexpr explicit tape(context<Other>&, std::uint64_t = 0) {
    static_assert(detail::device_of_tape_is<D, Other>, "tape<Device>{ctx}: ctx must be a context of Device");
  }
  template <class Context = context<D>>
  constexpr explicit tape(const context<D>&&, std::uint64_t = 0) {
    static_assert(
        detail::lasts_for_a_tape<Context>,
        "tape{ctx}: ctx is a temporary context, which ends here; name it first: context ctx{stream, resource}");
  }
  tape(const tape&) = delete;
  tape& operator=(const tape&) = delete;
  constexpr ~tape() {
    clear();
    ctx_->eras().put(*counter_);
  }

  /// Starts a recording from an input: `x` takes part, and no gradient is kept for it.
  template <class T, class S>
  constexpr auto watch(tensor<T, S, D> x) {
    begin_if_unwound();
    if (detail::is_of_gradient(x)) detail::fail_second_order("tape.watch(x)");
    return traced<tensor<T, S, D>, tape>(std::move(x), this, nullptr, counter_->era);
  }
  /// Starts a recording from an input whose gradient is wanted too: read it with `gradient()` after backward().
  template <class T, class S>
  constexpr auto variable(tensor<T, S, D> x) {
    static_assert(is_floating<T>, "tape.variable(x): only floating-point tensors have gradients");
    auto* leaf = push<leaf_node<tensor<T, S, D>>>();
    return traced<tensor<T, S, D>, tape>(std::move(x), this, &leaf->slot, counter_->era);
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
  constexpr std::size_t size() const { return count_; }  ///< of this recording: operations and variables

  /// Key of the next random draw of this step.
  constexpr random_key next_key() { return {seed_, step_, ordinal_++, random_domain::tape}; }
  /// Sets what random draws depend on; a resumed run names the step it goes on from.
  constexpr void set_random(std::uint64_t seed, std::uint32_t step) {
    if (unwound_) clear();  // or the next recording would move on to step + 1
    seed_ = seed;
    step_ = step;
    ordinal_ = 0;
  }
  constexpr std::uint32_t step() const { return step_; }

  /// Tells `who` of parameters whose gradients are complete, in backward() of the recordings that begin from now on; null ends that.
  constexpr void observe(gradient_observer* who) {
    observer_ = who;
    uses_.clear();
  }

  /// Applies an operation, keeps what it declares, and returns its output as a traced value. Called by apply().
  template <class Op, class... Xs>
  constexpr auto record(const Op& op, Xs&&... xs) {
    begin_if_unwound();
    (check_operand(*this, xs), ...);
    note_uses(xs...);
    auto kept = detail::kept_inputs<Op, Xs...>(xs...);
    auto result = detail::run<true, Op>(*ctx_, phase_, op, std::forward<Xs>(xs)...);
    using rules = detail::call_rules<Op, std::remove_cvref_t<Xs>...>;
    return attach<typename rules::products>(*this, op, std::move(kept), std::move(result), 0);
  }

  /// Runs all recorded operations backwards, each releasing what it kept as it goes. Called by backward(). Should one throw,
  /// the recording is cleared; parameters keep what they gathered until then.
  constexpr void unwind() {
    try {
      unwind_to(nullptr);
    } catch (...) {
      clear();
      throw;
    }
    unwound_ = true;
  }
  /// Forgets the recording without running it; values recorded so far must not be used any more.
  constexpr void clear() {
    destroy_list(last_);
    destroy_list(leaves_);
    nodes_.rewind();
    regions_.clear();
    uses_.clear();
    phase_ = phase::forward;
    count_ = 0;
    ordinal_ = 0;
    ++counter_->era;
    unwound_ = false;
  }
  constexpr unsigned era() const { return counter_->era; }
  /// True while backward() can start from values of recording `era`.
  constexpr bool can_unwind(unsigned era) const { return era == counter_->era && !unwound_; }
  /// True when `slot` belongs to a value that variable() made in recording `era`, and that is still the tape's recording.
  constexpr bool holds_variable(const void* slot, unsigned era) const {
    if (slot == nullptr || era != counter_->era) return false;
    for (const node* list : {last_, leaves_})
      for (const node* n = list; n != nullptr; n = n->previous)
        if (n->backward == nullptr && static_cast<const leaf*>(n)->slot_address == slot) return true;
    return false;
  }

 private:
  // A new recording starts at the first use after backward(): the step that random draws depend on moves on.
  constexpr void begin_if_unwound() {
    if (!unwound_) return;
    clear();
    ++step_;
  }
  // Operands of `recorder`'s operations are its own, and of this recording.
  template <class R, class X>
  constexpr void check_operand(const R& recorder, const X& x) const {
    if constexpr (is_traced<std::remove_cvref_t<X>>) {
      if (&x.recorder() != &recorder)  // which throws where the recording of x is over
        throw error("apply: the operands were recorded on two different tapes; use one tape");
    } else if (detail::is_of_gradient(x)) {
      detail::fail_second_order("apply");
    }
  }
  // Notes the parameters among these operands of the operation or region whose node comes next.
  template <class... Xs>
  constexpr void note_uses(const Xs&... xs) {
    if (observer_ != nullptr) (note_use(xs), ...);
  }
  template <class X>
  constexpr void note_use(const X& x) {
    if constexpr (is_param<X>) uses_.note(&x.slot());
    else if constexpr (detail::is_computed_param<X>) uses_.note(&x.of->slot());
  }
  // Adds the node of an applied operation and gives its output to `recorder`; `maker` is its number there.
  template <class Products, class R, class Op, class Kept, class Result>
  constexpr auto attach(R& recorder, const Op& op, Kept kept, Result result, unsigned maker) {
    using Output = typename detail::forward_result<Result>::output;
    Output& out = detail::output_of(result);
    if constexpr (!is_floating<typename Output::value_type>) {
      return traced<Output, R>(std::move(out), &recorder, nullptr, counter_->era, maker);
    } else {
      if (!kept.wanted()) return traced<Output, R>(std::move(out), &recorder, nullptr, counter_->era, maker);
      auto saved = detail::saved_of<Op, Products>(std::move(kept.inputs), result);
      detail::note_all_saved(*ctx_, detail::name_of(op), saved.inputs);
      detail::note_saved(*ctx_, detail::name_of(op), saved.output, saved.statistics);
      using Node = op_node<Op, Output, decltype(saved), decltype(kept.versions), decltype(kept.sinks)>;
      auto* n = push<Node>(op, std::move(saved), std::move(kept.versions), kept.sinks);
      n->backward = &Node::run;  // not in its constructor, so that messages about an operation's gradient are short
      return traced<Output, R>(std::move(out), &recorder, &n->slot, counter_->era, maker);
    }
  }
  // Unwinds what was recorded after `stop`.
  constexpr void unwind_to(node* stop) {
    while (last_ != stop) {
      node* n = last_;
      if (n->backward != nullptr) {
        n->backward(n);
        if (observer_ != nullptr) uses_.done(n, *observer_);
        last_ = n->previous;
        n->destroy(n);
      } else {  // a leaf keeps its gradient until the tape is used again
        if (observer_ != nullptr) uses_.done(n, *observer_);
        last_ = n->previous;
        n->previous = leaves_;
        leaves_ = n;
      }
    }
  }
  // An object of T in the arena; in a constant expression, on the heap. `destroy` ends it.
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
    n->previous = last_;
    last_ = n;
    ++count_;
    if (observer_ != nullptr) uses_.added(n);
    return n;
  }
  static constexpr void destroy_list(node*& list) {
    while (list != nullptr) {
      node* n = list;
      list = n->previous;
      n->destroy(n);
    }
  }

  template <class Outer>
  friend class region;

  context<D>* ctx_;
  detail::era_counter* counter_ = nullptr;
  arena nodes_;
  region_log regions_;
  gradient_observer* observer_ = nullptr;
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
