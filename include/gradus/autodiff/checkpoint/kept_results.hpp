#pragma once
// The list of results that a checkpoint region keeps from forward.

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../tensor/tensor.hpp"
#include "../op.hpp"
#include "log.hpp"

namespace gradus::detail {

template <class D>
class offload_group;

// Calls f(tensor) for the tensors of a result: its output and its statistics.
template <class V, class F>
constexpr void visit_tensors(V& v, const F& f) {
  if constexpr (is_tensor<V>) {
    f(v);
  } else if constexpr (requires { v.statistics; }) {
    visit_tensors(v.output, f);
    visit_tensors(v.statistics, f);
  } else if constexpr (requires { v.parts(); }) {
    std::apply(
        [&](const auto&... part) { (visit_tensors(const_cast<std::remove_cvref_t<decltype(part)>&>(part), f), ...); },
        v.parts());
  }
}

/// The results that a checkpoint region keeps, in the order of its operations, in the tape's arena.
template <class D>
class kept_results {
 public:
  constexpr kept_results() = default;
  constexpr kept_results(kept_results&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
  constexpr kept_results& operator=(kept_results&& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
    return *this;
  }
  kept_results(const kept_results&) = delete;
  kept_results& operator=(const kept_results&) = delete;
  constexpr ~kept_results() {
    while (first_ != nullptr) remove(first_);
  }

  /// Adds the result of the operation with this key and number in the region log.
  template <class Tape, class Result>
  constexpr void add(Tape& on, const void* key, std::size_t number, Result result) {
    item* i = on.template place<item_of<Result>>(std::move(result));
    i->key = key;
    i->number = number;
    *(first_ == nullptr ? &first_ : &last_->next) = i;
    last_ = i;
  }
  /// The result added last, a Result, is to be kept in host memory.
  template <class Result>
  constexpr void offload_last() {
    last_->move = &item_of<Result>::move_buffers;
  }
  /// True if there are results to keep in host memory.
  constexpr bool offloads() const {
    for (const item* i = first_; i != nullptr; i = i->next)
      if (i->move != nullptr) return true;
    return false;
  }
  /// Moves the buffers of these results into `group`, or out of it.
  constexpr void move_to(offload_group<D>& group) { move(group, true); }
  constexpr void move_from(offload_group<D>& group) { move(group, false); }
  /// Destroys the results that a replay will not take.
  constexpr void drop_unless_taken(const region_log& log) {
    for (item** at = &first_; *at != nullptr;) {
      if (log.entries[(*at)->number].action == replay_action::take) at = &(*at)->next;
      else remove(*at);
    }
  }
  /// True if the next result comes from the operation with this key.
  constexpr bool next_is(const void* key) const { return first_ != nullptr && first_->key == key; }
  /// Removes and returns the next result; next_is() must have found an operation whose result is a Result.
  template <class Result>
  constexpr Result take() {
    Result r = std::move(static_cast<item_of<Result>*>(first_)->result);
    remove(first_);
    return r;
  }

 private:
  struct item {
    void (*destroy)(item*) = nullptr;
    void (*move)(item*, offload_group<D>&, bool) = nullptr;  // of a result that is kept in host memory
    item* next = nullptr;
    const void* key = nullptr;
    std::size_t number = 0;
  };
  template <class Result>
  struct item_of : item {
    Result result;
    constexpr explicit item_of(Result r) : result(std::move(r)) {}
    static constexpr void move_buffers(item* of, offload_group<D>& group, bool leave) {
      visit_tensors(static_cast<item_of*>(of)->result, [&]<class X>(X& x) {
        if (leave) {
          if (auto* to = group.reserve(x.storage(), x.extents().size * sizeof(typename X::value_type)))
            to->device = std::move(x).storage();
        } else if (buffer<D> back = group.next()) {
          x = X(std::move(back), x.extents());
        }
      });
    }
  };
  constexpr void move(offload_group<D>& group, bool leave) {
    for (item* i = first_; i != nullptr; i = i->next)
      if (i->move != nullptr) i->move(i, group, leave);
  }
  static constexpr void remove(item*& at) {
    item* const i = std::exchange(at, at->next);
    i->destroy(i);
  }

  item* first_ = nullptr;
  item* last_ = nullptr;
};

}  // namespace gradus::detail
