#pragma once
// Control blocks of buffers, and their recycling by a context.

#include <cstddef>
#include <string>
#include <type_traits>

#include "../core/device.hpp"
#include "../core/vector.hpp"
#include "diagnostics.hpp"
#include "pager.hpp"
#include "poison.hpp"
#include "resource.hpp"

namespace gradus {

/// The origin of a buffer's elements. Recorded operations reject parameters and gradients as implicit constants.
enum class origin : unsigned char { any, parameter, gradient };

/// Control block of a reference-counted buffer, with its context, hence its stream and resource.
template <class D>
struct memory_block {
  context<D>* owner = nullptr;
  void* data = nullptr;
  memory_request request{};
  std::size_t uses = 0;           ///< handles, plus parts
  memory_block* whole = nullptr;  ///< of a part: the whole block
  std::size_t offset = 0;         ///< of a part: its first byte in the whole block
  gradus::origin origin{};        ///< see buffer::origin()
  bool borrowed = false;          ///< the resource did not allocate it; see buffer::borrow()
  bool paged = false;             ///< its memory, or its whole block's, comes and goes; see buffer::paged()
  bool resident = true;           ///< false for a paged block without memory
  pager* by = nullptr;            ///< of a paged block: is notified of its use, as `page`; null: nothing is
  std::size_t page = 0;
  void (*end)(void*) = nullptr;  ///< of a borrowed block: called with `end_argument` in place of a deallocation
  void* end_argument = nullptr;
  memory_block* next_free = nullptr;
};

namespace detail {

// Reference counts, which threads may change concurrently.
constexpr std::size_t uses_now(const std::size_t& uses) {
  return std::is_constant_evaluated() ? uses : __atomic_load_n(&uses, __ATOMIC_ACQUIRE);
}
constexpr void add_use(std::size_t& uses) {
  if (std::is_constant_evaluated()) ++uses;
  else __atomic_fetch_add(&uses, 1, __ATOMIC_RELAXED);
}
// True for the last use. A count of 1 cannot grow concurrently, so that case needs no atomic exchange.
constexpr bool drop_use(std::size_t& uses) {
  if (std::is_constant_evaluated()) return --uses == 0;
  return uses_now(uses) == 1 || __atomic_sub_fetch(&uses, 1, __ATOMIC_ACQ_REL) == 0;
}

// The control blocks of one context, recycled, so that a steady state does not allocate.
template <class D>
class block_store {
 public:
  constexpr block_store() = default;
  block_store(const block_store&) = delete;
  block_store& operator=(const block_store&) = delete;
  constexpr ~block_store() {
    if (std::is_constant_evaluated()) return;
    check_unused();
    for (memory_block<D>* chunk : chunks_) delete[] chunk;
  }

  constexpr memory_block<D>* take() {
    if (std::is_constant_evaluated()) return new memory_block<D>;
    if (free_ == nullptr) {
      chunks_.reserve(chunks_.size() + 1);
      auto* chunk = new memory_block<D>[chunk_size];
      chunks_.push_back(chunk);
      for (std::size_t i = 0; i < chunk_size; ++i) put(&chunk[i]);
    }
    memory_block<D>* b = free_;
    unpoison(b, sizeof *b);
    free_ = b->next_free;
    b->whole = nullptr;
    return b;
  }
  constexpr void put(memory_block<D>* b) {
    if (std::is_constant_evaluated()) {
      delete b;
      return;
    }
    b->uses = 0;
    b->next_free = free_;
    free_ = b;
    poison(b, sizeof *b);
  }

 private:
  static constexpr std::size_t chunk_size = 128;

  void check_unused() const noexcept {
    std::size_t used = 0;
    const memory_request* first = nullptr;
    for (const memory_block<D>* chunk : chunks_) {
      unpoison(chunk, chunk_size * sizeof *chunk);
      for (std::size_t i = 0; i < chunk_size; ++i) {
        if (chunk[i].uses == 0) continue;
        ++used;
        if (first == nullptr || chunk[i].request.id < first->id) first = &chunk[i].request;
      }
    }
    if (used > 0)
      ended_too_early("context", std::to_string(used) + " buffers (the first: " + bytes_text(first->bytes) + ", " +
                                     purpose_text(*first) + ")");
  }

  memory_block<D>* free_ = nullptr;
  detail::vector<memory_block<D>*> chunks_;
};

}  // namespace detail

}  // namespace gradus
