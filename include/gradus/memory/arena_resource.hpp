#pragma once
// An arena: allocates by advancing a pointer, and frees everything at once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "diagnostics.hpp"
#include "poison.hpp"
#include "resource.hpp"

namespace gradus {

/// Allocates from front to back and frees nothing until release(): the cheapest resource for memory that is freed as a
/// whole. The bytes are a span of the caller's, or chunks of another resource.
template <class Stream>
class basic_arena_resource final : public basic_resource<Stream> {
  static_assert(event_stream<Stream>);

 public:
  explicit basic_arena_resource(basic_resource<Stream>& from, std::size_t chunk_bytes = std::size_t{1} << 20)
      : from_(&from), chunk_bytes_(chunk_bytes) {}
  /// Allocates from `fixed` only, which must be usable by every stream.
  explicit basic_arena_resource(std::span<std::byte> fixed) : fixed_(fixed) { rewind(); }
  /// Ends the program with one line on stderr if blocks are in use.
  ~basic_arena_resource() override {
    if (live_ > 0) ended_too_early("arena_resource", bytes_text(live_));
    try {
      if (origin_) release(*origin_);
    } catch (...) {  // a failed stream no longer uses the memory
      return_chunks(*origin_);
    }
    detail::unpoison_for<Stream>(fixed_.data(), fixed_.size());
  }

  std::size_t reserved_bytes() const { return reserved_; }  ///< allocated from the upstream resource

  /// Returns the chunks to the upstream resource, on `on`, after making it wait for all streams that used them; a fixed
  /// span is reused from its front, likewise. Throws error if blocks are in use.
  void release(Stream& on) {
    if (live_ > 0) throw error("memory arena: release() while " + bytes_text(live_) + " are in use; free them first");
    for (const user& u : users_)
      if (u.by != &on && !u.last.done()) on.wait(u.last);
    return_chunks(on);
    users_.clear();
    further_.clear();
    rewind();
    ready_on_ = &on;
    on.record(ready_);
  }

 private:
  struct chunk {
    std::byte* data;
    memory_request request;
  };
  // A stream that used blocks, up to the event `last`: the last time that it, or another stream for it, freed one.
  struct user {
    const Stream* by = nullptr;
    typename Stream::event last{};
  };
  struct further_use {
    const void* memory;
    Stream* by;
  };

  auto find_user(Stream& by) {
    return std::find_if(users_.begin(), users_.end(), [&](const user& u) { return u.by == &by; });
  }
  void add_user(Stream& by) {
    if (find_user(by) == users_.end()) users_.push_back({&by, {}});
  }
  void mark(Stream& by) noexcept {
    try {
      add_user(by);
    } catch (const std::bad_alloc&) { return by.synchronize(); }
    by.record(find_user(by)->last);
  }

  void* do_allocate(const memory_request& request, Stream& on) override {
    detail::make_beside(origin_, on);
    add_user(on);
    if (request.bytes > left_) grow(request, on);
    if (ready_on_ != nullptr && ready_on_ != &on && !ready_.done()) on.wait(ready_);
    std::byte* const at = next_;
    const std::size_t taken = std::min(left_, detail::round_up(request.bytes, Stream::alignment));
    next_ += taken;
    left_ -= taken;
    live_ += request.bytes;
    detail::unpoison_for<Stream>(at, request.bytes);
    return at;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    detail::take_off(live_, "arena_resource", memory, request);
    detail::poison_for<Stream>(memory, request.bytes);
    mark_further(memory);
    mark(on);
  }
  void do_used_on(void* memory, const memory_request&, Stream& by) override {
    add_user(by);
    further_.push_back({memory, &by});
  }
  void mark_further(const void* memory) noexcept {
    std::erase_if(further_, [&](const further_use& f) {
      if (f.memory == memory) mark(*f.by);
      return f.memory == memory;
    });
  }

  void grow(const memory_request& request, Stream& on) {
    if (from_ == nullptr) throw no_room(request, {.limit = fixed_.size()});
    chunks_.reserve(chunks_.size() + 1);
    chunk fresh{nullptr, {}};
    fresh.request.source = "arena_resource";
    for (const std::size_t bytes : {std::max(chunk_bytes_, request.bytes), request.bytes}) {
      fresh.request.bytes = bytes;
      try {
        fresh.data = static_cast<std::byte*>(from_->allocate(fresh.request, on));
        break;
      } catch (const out_of_memory& refusal) {
        if (bytes == request.bytes) throw no_room(request, refusal.figures);
      }
    }
    chunks_.push_back(fresh);
    reserved_ += fresh.request.bytes;
    next_ = fresh.data;
    left_ = fresh.request.bytes;
    detail::poison_for<Stream>(next_, left_);
    ready_on_ = &on;
    on.record(ready_);
  }
  void return_chunks(Stream& on) noexcept {
    for (const chunk& c : chunks_) {
      detail::unpoison_for<Stream>(c.data, c.request.bytes);
      from_->deallocate(c.data, c.request, on);
    }
    chunks_.clear();
    reserved_ = 0;
    next_ = nullptr;
    left_ = 0;
  }
  // Moves to the front of the fixed span, or to an empty one.
  void rewind() {
    const auto skipped = (0 - reinterpret_cast<std::uintptr_t>(fixed_.data())) % Stream::alignment;
    const std::size_t skip = std::min<std::size_t>(skipped, fixed_.size());
    next_ = fixed_.data() + skip;
    left_ = fixed_.size() - skip;
    detail::poison_for<Stream>(next_, left_);
  }
  out_of_memory no_room(const memory_request& request, const memory_figures& below) const {
    const std::size_t fits = below.fits == memory_figures::unknown ? left_ : std::max(left_, below.fits);
    return shortage("memory arena", request, {.live = live_, .limit = below.limit, .fits = fits});
  }

  basic_resource<Stream>* from_ = nullptr;
  std::size_t chunk_bytes_ = 0;
  std::span<std::byte> fixed_{};
  std::optional<Stream> origin_;  // frees chunks when no caller's stream is known; created with the first
  std::vector<chunk> chunks_;
  std::vector<user> users_;
  std::vector<further_use> further_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  const Stream* ready_on_ = nullptr;  // may use the rest at once; other streams after ready_
  typename Stream::event ready_{};
  std::size_t live_ = 0;
  std::size_t reserved_ = 0;
};

using arena_resource = basic_arena_resource<stream>;  ///< on the CPU

}  // namespace gradus
