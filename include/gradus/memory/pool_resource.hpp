#pragma once
// A pool: keeps freed memory for reuse.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include "block_table.hpp"
#include "diagnostics.hpp"
#include "poison.hpp"
#include "resource.hpp"

namespace gradus {

/// Keeps memory for reuse: best fit over free ranges, which split when allocated and merge with free neighbours when
/// freed. Allocates segments from another resource and returns them when it is destroyed, on release(), or when memory
/// runs out. Training steps repeat their requests: after the first step, nothing is allocated from the system.
///
/// Each stream has its own free ranges, which it can reuse at once. It takes another stream's range if that stream has
/// passed the point of the free, or else waits for that point; the host never waits. Blocks that were used_on other
/// streams become free when those are done. Freeing a block that is not in use or not of this pool ends the program
/// with one line on stderr, as does a pool that is destroyed while its memory is in use.
template <class Stream>
class basic_pool_resource final : public basic_resource<Stream> {
 public:
  explicit basic_pool_resource(basic_resource<Stream>& from, std::size_t segment_bytes = std::size_t{32} << 20)
      : from_(&from), segment_bytes_(segment_bytes) {}
  ~basic_pool_resource() override {
    if (live_ > 0) ended_too_early("pool_resource", bytes_text(live_));
    try {
      release();
    } catch (...) {  // a failed stream no longer uses the memory
    }
    while (table_.begin() != table_.end()) return_segment(table_.begin(), *origin_);
  }

  std::size_t live_bytes() const { return live_; }                ///< in use, rounded up to the alignment
  std::size_t reserved_bytes() const { return reserved_; }        ///< allocated from the upstream resource
  std::size_t cached_bytes() const { return reserved_ - live_; }  ///< allocated, but not in use
  /// Returns unused segments to the upstream resource, once all streams are done with them.
  void release() {
    if (origin_) release(*origin_);
  }

 private:
  using table = detail::block_table<Stream>;
  using iterator = typename table::iterator;

  static std::size_t rounded(std::size_t bytes) { return detail::round_up(bytes, Stream::alignment); }

  void* do_allocate(const memory_request& request, Stream& on) override {
    if (request.bytes > table::most) throw out_of_room(request, {});
    const std::size_t bytes = rounded(request.bytes);
    detail::make_beside(origin_, on);
    table_.prepare(2);  // one for a new segment, one for a split
    table_.settle();
    iterator b = find(bytes, on);
    if (b == table_.end()) b = obtain(bytes, request, on);
    table_.hand_out(b, bytes);
    live_ += bytes;
    detail::unpoison_for<Stream>(b->first, request.bytes);
    return b->first;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    const iterator b = checked(memory, request);
    live_ -= b->second.bytes;
    detail::poison_for<Stream>(memory, b->second.bytes);
    table_.give_back(b, on);
  }
  void do_used_on(void* memory, const memory_request& request, Stream& by) override {
    table_.use_on(checked(memory, request), by);
  }

  // The used block that begins at `memory`; ends the program if there is none.
  iterator checked(void* memory, const memory_request& request) {
    auto* const at = static_cast<std::byte*>(memory);
    const iterator b = table_.containing(at);
    const char* wrong = nullptr;
    if (b == table_.end()) wrong = "does not belong to this pool";
    else if (!b->second.handed_out) wrong = "is not in use: it was freed twice";
    else if (b->first != at) wrong = "is not the start of a block";
    else if (b->second.bytes != rounded(request.bytes)) wrong = "was allocated with another size";
    if (wrong != nullptr) memory_misuse("pool_resource", wrong, memory, request);
    return b;
  }

  // Search for a free block, cheapest way first.

  iterator find(std::size_t bytes, Stream& on) {
    const iterator own = table_.best_fit(&on, bytes);
    if (own != table_.end()) return own;
    iterator best = table_.end();  // the smallest best fit of the other streams, or one that needs no waiting
    for (const Stream* home = table_.next_home(nullptr); home != nullptr; home = table_.next_home(home)) {
      const iterator b = table_.best_fit(home, bytes);
      if (b == table_.end()) continue;
      if (b->second.last.done()) return b;
      if (best == table_.end() || b->second.bytes < best->second.bytes) best = b;
    }
    if (best == table_.end()) return fold(bytes, on, false);
    on.wait(best->second.last);
    return best;
  }

  iterator obtain(std::size_t bytes, const memory_request& request, Stream& on) {
    memory_figures below;
    const auto grown = [&](std::size_t size) {
      try {
        return grow(size, on);
      } catch (const out_of_memory& refusal) { below = refusal.figures; }
      return table_.end();
    };
    iterator b = grown(std::max(bytes, segment_bytes_));
    if (b == table_.end() && bytes < segment_bytes_) b = grown(bytes);
    if (b == table_.end()) b = fold(bytes, on, true);
    if (b == table_.end()) {
      release(on);
      b = grown(bytes);
    }
    if (b == table_.end()) throw out_of_room(request, below);
    return b;
  }

  // Merges the smallest sufficient run of free neighbours, of any streams, into a block for `on`, which waits for them.
  iterator fold(std::size_t bytes, Stream& on, bool also_set_aside) {
    iterator first = table_.end(), last = first;
    std::size_t best = table::most;
    for (iterator b = table_.begin(); b != table_.end();) {
      const auto [end, sum] = table_.run(b, also_set_aside);
      if (sum >= bytes && sum < best) {
        first = b;
        last = end;
        best = sum;
      }
      b = end == b ? std::next(b) : end;
    }
    if (first != table_.end()) table_.claim(first, last, on);
    return first;
  }

  // Segments. They are returned with the request by which they were allocated.

  static memory_request segment_request(std::size_t bytes) {
    memory_request request;
    request.bytes = bytes;
    request.source = "pool_resource";
    return request;
  }
  iterator grow(std::size_t bytes, Stream& on) {
    auto* const at = static_cast<std::byte*>(from_->allocate(segment_request(bytes), on));
    reserved_ += bytes;
    detail::poison_for<Stream>(at, bytes);
    return table_.add_segment(at, bytes, on);
  }
  void release(Stream& on) {
    for (iterator b = table_.begin(); b != table_.end();) {
      const iterator first = b;
      b = table_.segment_end(first);
      if (table_.run(first, true).first != b) continue;
      table_.claim(first, b, on);
      return_segment(first, on);
    }
  }
  void return_segment(iterator first, Stream& on) noexcept {
    std::byte* const at = first->first;
    const std::size_t bytes = table_.remove_segment(first, table_.segment_end(first));
    reserved_ -= bytes;
    detail::unpoison_for<Stream>(at, bytes);
    from_->deallocate(at, segment_request(bytes), on);
  }

  out_of_memory out_of_room(const memory_request& request, const memory_figures& below) {
    std::size_t fits = below.fits == memory_figures::unknown ? 0 : below.fits / Stream::alignment * Stream::alignment;
    for (iterator b = table_.begin(); b != table_.end(); ++b) fits = std::max(fits, table_.run(b, true).second);
    return shortage("memory pool", request,
                    {.live = live_, .cached = cached_bytes(), .limit = below.limit, .fits = fits});
  }

  basic_resource<Stream>* from_;
  std::size_t segment_bytes_;
  std::optional<Stream> origin_;  // frees segments when no caller's stream is known; created with the first
  table table_;
  std::size_t live_ = 0;
  std::size_t reserved_ = 0;
};

using pool_resource = basic_pool_resource<stream>;  ///< on the CPU

}  // namespace gradus
