#pragma once
// The list of results that a checkpoint region keeps from forward.

#include <cstddef>
#include <utility>

#include "log.hpp"

namespace gradus::detail {

/// The results that a checkpoint region keeps, in the order of its operations, in the tape's arena.
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
    item* next = nullptr;
    const void* key = nullptr;
    std::size_t number = 0;
  };
  template <class Result>
  struct item_of : item {
    Result result;
    constexpr explicit item_of(Result r) : result(std::move(r)) {}
  };
  static constexpr void remove(item*& at) {
    item* const i = std::exchange(at, at->next);
    i->destroy(i);
  }

  item* first_ = nullptr;
  item* last_ = nullptr;
};

}  // namespace gradus::detail
