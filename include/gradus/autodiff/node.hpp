#pragma once
// What a tape stores: nodes (one for each operation, variable or checkpoint region), and the arena that holds them.

#include <cstddef>
#include <new>
#include <utility>

#include "../core/vector.hpp"
#include "../memory/poison.hpp"
#include "../tensor/gradient_slot.hpp"
#include "forward.hpp"

namespace gradus {

/// Memory for nodes, in chunks that are filled one after another and reused from step to step. Builds with the address
/// sanitizer poison the bytes that hold no object.
class arena {
 public:
  static constexpr std::size_t chunk_bytes = 64 * 1024;

  constexpr arena() = default;
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  constexpr ~arena() {
    for (std::byte* chunk : chunks_) ::operator delete(chunk);
  }

  /// Memory for one object of `bytes` (at most a chunk), aligned to `alignment` (at most std::max_align_t's).
  void* allocate(std::size_t bytes, std::size_t alignment) {
    std::size_t at = (used_ + alignment - 1) / alignment * alignment;
    if (current_ == chunks_.size() || at + bytes > chunk_bytes) {
      if (current_ < chunks_.size()) ++current_;
      if (current_ == chunks_.size()) {
        chunks_.reserve(chunks_.size() + 1);
        chunks_.push_back(static_cast<std::byte*>(::operator new(chunk_bytes)));
        detail::poison(chunks_.back(), chunk_bytes);
      }
      at = 0;
    }
    used_ = at + bytes;
    detail::unpoison(chunks_[current_] + at, bytes);
    return chunks_[current_] + at;
  }
  /// Forgets all objects and keeps the chunks.
  constexpr void rewind() {
    if constexpr (detail::poisons)
      for (const std::byte* chunk : chunks_) detail::poison(chunk, chunk_bytes);
    current_ = 0;
    used_ = 0;
  }

 private:
  detail::vector<std::byte*> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

/// One entry of a tape: a function that runs its backward and one that destroys it. Function pointers instead of a
/// virtual table, so that a node is its members and no more.
struct node {
  using function = void (*)(node*);
  function backward = nullptr;
  function destroy = nullptr;
  node* previous = nullptr;
};

/// One recorded operation: the values that it saved, the slots of its inputs' gradients, and its output's slot.
/// @tparam Inputs the tensors in which the inputs' gradients accumulate
template <class Op, class Output, class Saved, class... Inputs>
struct op_node : node {
  Op op;
  Saved saved;
  detail::saved_version versions[sizeof...(Inputs)];
  any_slot* sinks[sizeof...(Inputs)];
  [[no_unique_address]] detail::items<extents_of<typename Inputs::shape>...> extents;
  gradient_slot<Output> slot;

  constexpr op_node(const Op& o, Saved s, const decltype(extents)& of_inputs)
      : op(o), saved(std::move(s)), extents(of_inputs) {}

  static constexpr void run(node* n) {
    auto* self = static_cast<op_node*>(n);
    if (self->slot.value())  // otherwise no loss depends on the output
      self->run_backward(std::index_sequence_for<Inputs...>{});
  }

 private:
  template <std::size_t... Is>
  constexpr void run_backward(std::index_sequence<Is...>) {
    for (const detail::saved_version& v : versions)
      if (v.was_changed()) detail::fail_changed_parameter(detail::name_of(op));
    auto gradient = slot.take();
    auto& ctx = gradient.owner();
    cost work = detail::backward_cost<Op, Output, Saved, Inputs...>;
    if constexpr (detail::has_two_factors<Op>)
      if (sinks[0] == nullptr || sinks[1] == nullptr) work.flops /= 2;
    const typename context<typename Output::device>::running now(ctx, detail::name_of(op), phase::backward, work);
    op.backward(saved, std::move(gradient), sink<Is, Inputs>()...);
    if (ctx.observed_by() == nullptr) return;
    (notify(ctx, sink<Is, Inputs>(), Is + 1), ...);
  }
  template <std::size_t At, class X>
  constexpr gradient_sink<X> sink() const {
    return gradient_sink<X>(static_cast<gradient_slot<X>*>(sinks[At]), detail::get<At>(extents));
  }
  template <class Context, class X>
  static constexpr void notify(const Context& ctx, const gradient_sink<X>& to, std::size_t number) {
    if (to) detail::notify_computed(ctx, to.so_far(), number);
  }
};

/// A variable: a value whose gradient the user reads. The tape finds it by the address of its slot.
struct leaf : node {
  const void* slot_address = nullptr;
};
template <class Value>
struct leaf_node : leaf {
  gradient_slot<Value> slot;
  constexpr leaf_node() { slot_address = &slot; }
};

}  // namespace gradus
