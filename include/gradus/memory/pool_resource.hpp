#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// Keeps memory for reuse instead of returning it: best fit over free ranges, which split when taken and merge with their
/// neighbours when given back. Memory comes from another resource in segments and returns to it when the pool ends, on
/// release(), or when memory runs out. Training steps ask for the same sizes again and again; with a pool, the operating system sees
/// only the first step, and from then on the pool itself asks the heap for nothing.
///
/// Each stream has its own free ranges: what it gave back, it gets again at once. A range of another stream is taken if that stream
/// is past the point where it was given back, or else after the taker was told to wait for that point; the host never waits. What
/// was used_on further streams is set aside until they are done. Giving back what is not in use, or not of this pool, ends the
/// program with one line on stderr.
template <class Stream>
class basic_pool_resource final : public basic_resource<Stream> {
  static_assert(event_stream<Stream>);

 public:
  explicit basic_pool_resource(basic_resource<Stream>& from, std::size_t segment_bytes = std::size_t{32} << 20)
      : from_(&from), segment_bytes_(segment_bytes) {}
  ~basic_pool_resource() override {
    try {
      release();
    } catch (...) {  // a stream that cannot be waited for will not use the memory either
    }
    while (!blocks_.empty()) {
      const auto end = segment_end(blocks_.begin());
      return_segment(blocks_.begin(), end, origin_);
    }
  }

  std::size_t live_bytes() const { return live_; }                ///< handed out now, rounded up to the alignment
  std::size_t reserved_bytes() const { return reserved_; }        ///< held from the resource below
  std::size_t cached_bytes() const { return reserved_ - live_; }  ///< held and not handed out
  /// Gives segments of which nothing is handed out back to the resource below, once all streams are done with them.
  void release() { release(origin_); }

 private:
  using event = typename Stream::event;
  struct use {
    Stream* by = nullptr;
    event last;
  };
  // Where a free range is found: those of one stream lie together, by size. Those that wait for a further stream have none.
  struct place {
    const Stream* home = nullptr;
    std::size_t bytes = 0;
    std::byte* at = nullptr;
    friend bool operator<(const place& a, const place& b) {
      if (a.home != b.home) return std::less<const Stream*>{}(a.home, b.home);
      if (a.bytes != b.bytes) return a.bytes < b.bytes;
      return std::less<std::byte*>{}(a.at, b.at);
    }
  };
  using index_set = std::set<place>;
  // A range of a segment, handed out or free. The nodes of all containers are made by allocate and move from one to another, so
  // that giving back, which must not fail, needs none.
  struct block {
    std::size_t bytes = 0;
    bool opens_segment = false;
    bool handed_out = false;
    const Stream* home = nullptr;        // that gave it back, at `last`
    event last{};                        // streams run in order: of two marks in one, the later one says all
    std::size_t number = 0;              // of that mark, to tell which is later
    std::list<use> uses{};               // on further streams
    typename index_set::node_type node;  // of a block that is not in the index
  };
  using block_map = std::map<std::byte*, block>;
  using iterator = typename block_map::iterator;

  static constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 2;
  static std::size_t rounded(std::size_t bytes) {
    return (bytes + Stream::alignment - 1) / Stream::alignment * Stream::alignment;
  }

  void* do_allocate(const memory_request& request, Stream& on) override {
    if (request.bytes > most) throw out_of_room(request, {});
    const std::size_t bytes = rounded(request.bytes);
    prepare(2);  // one if a segment comes, one if a block splits
    settle();
    iterator b = find(bytes, on);
    if (b == blocks_.end()) b = obtain(bytes, request, on);
    hand_out(b, bytes);
    return b->first;
  }

  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    const iterator b = checked(memory, request);
    b->second.handed_out = false;
    live_ -= b->second.bytes;
    mark(b->second, on);
    auto& uses = b->second.uses;
    for (auto u = uses.begin(); u != uses.end();) {
      const auto here = u++;
      if (here->by == &on) spare_uses_.splice(spare_uses_.end(), uses, here);
      else here->by->record(here->last);
    }
    if (uses.empty()) {
      merge(b);
    } else {
      ++set_aside_;
      list(b);
    }
  }

  void do_used_on(void* memory, const memory_request& request, Stream& by) override {
    auto& uses = checked(memory, request)->second.uses;
    if (std::any_of(uses.begin(), uses.end(), [&](const use& u) { return u.by == &by; })) return;
    if (spare_uses_.empty()) spare_uses_.emplace_back();
    spare_uses_.front().by = &by;
    uses.splice(uses.end(), spare_uses_, spare_uses_.begin());
  }

  iterator checked(void* memory, const memory_request& request) {
    auto* const at = static_cast<std::byte*>(memory);
    auto b = blocks_.upper_bound(at);
    if (b == blocks_.begin() || at >= std::prev(b)->first + std::prev(b)->second.bytes)
      memory_misuse("pool_resource", "is not of this pool", memory, request);
    --b;
    if (!b->second.handed_out)
      memory_misuse("pool_resource", "is not in use: it was given back twice", memory, request);
    if (b->first != at) memory_misuse("pool_resource", "lies inside of a block", memory, request);
    if (b->second.bytes != rounded(request.bytes))
      memory_misuse("pool_resource", "was asked for with another size", memory, request);
    return b;
  }

  // Finding a free block, the cheapest way first.

  iterator find(std::size_t bytes, Stream& on) {
    const auto own = index_.lower_bound({&on, bytes, nullptr});
    if (own != index_.end() && own->home == &on) return blocks_.find(own->at);
    iterator best = blocks_.end();  // the smallest of the other streams' best fits; at once one that needs no waiting
    for (auto next = index_.upper_bound({nullptr, most, nullptr}); next != index_.end();) {
      const Stream* const home = next->home;
      const auto fit = index_.lower_bound({home, bytes, nullptr});
      if (fit != index_.end() && fit->home == home) {
        const iterator b = blocks_.find(fit->at);
        if (b->second.last.done()) return b;
        if (best == blocks_.end() || b->second.bytes < best->second.bytes) best = b;
      }
      next = index_.upper_bound({home, most, nullptr});
    }
    if (best == blocks_.end()) return fold(bytes, on, false);
    on.wait(best->second.last);
    return best;
  }

  iterator obtain(std::size_t bytes, const memory_request& request, Stream& on) {
    memory_figures below;
    const auto grown = [&](std::size_t size) {
      try {
        return grow(size, on);
      } catch (const out_of_memory& refusal) { below = refusal.figures; }
      return blocks_.end();
    };
    iterator b = grown(std::max(bytes, segment_bytes_));
    if (b == blocks_.end() && bytes < segment_bytes_) b = grown(bytes);
    if (b == blocks_.end()) b = fold(bytes, on, true);
    if (b == blocks_.end()) {
      release(on);
      b = grown(bytes);
    }
    if (b == blocks_.end()) throw out_of_room(request, below);
    return b;
  }

  // The smallest run of free neighbours that is large enough, whoever gave them back, as one block that `on` may use: it waits.
  iterator fold(std::size_t bytes, Stream& on, bool also_set_aside) {
    iterator first = blocks_.end(), last = first;
    std::size_t best = most;
    for (iterator b = blocks_.begin(); b != blocks_.end();) {
      const auto [end, sum] = run(b, also_set_aside);
      if (sum >= bytes && sum < best) {
        first = b;
        last = end;
        best = sum;
      }
      b = end == b ? std::next(b) : end;
    }
    if (first != blocks_.end()) claim(first, last, on);
    return first;
  }
  // Where the free blocks that begin with b in its segment end, and their bytes.
  std::pair<iterator, std::size_t> run(iterator b, bool also_set_aside) {
    std::size_t sum = 0;
    iterator i = b;
    for (; i != blocks_.end() && (i == b || !i->second.opens_segment); ++i) {
      if (i->second.handed_out || (!also_set_aside && !i->second.uses.empty())) break;
      sum += i->second.bytes;
    }
    return {i, sum};
  }
  void claim(iterator first, iterator last, Stream& on) {
    for (iterator i = first; i != last; ++i) {
      if (i->second.home != &on && !i->second.last.done()) on.wait(i->second.last);
      for (const use& u : i->second.uses)
        if (!u.last.done()) on.wait(u.last);
    }
    for (iterator i = first; i != last; ++i) {
      unlist(i);
      forget_uses(i->second);
    }
    while (std::next(first) != last) absorb_next(first);
    mark(first->second, on);
    list(first);
  }

  // Segments.

  static memory_request segment_request(std::size_t bytes) {
    memory_request request;
    request.bytes = bytes;
    request.source = "pool_resource";
    return request;
  }
  iterator grow(std::size_t bytes, Stream& on) {
    auto* const at = static_cast<std::byte*>(from_->allocate(segment_request(bytes), on));
    reserved_ += bytes;
    const iterator b = add(at, bytes);
    b->second.opens_segment = true;
    mark(b->second, on);
    list(b);
    return b;
  }
  iterator segment_end(iterator b) {
    do ++b;
    while (b != blocks_.end() && !b->second.opens_segment);
    return b;
  }
  void release(Stream& on) {
    for (iterator b = blocks_.begin(); b != blocks_.end();) {
      const iterator first = b;
      b = segment_end(first);
      if (run(first, true).first != b) continue;
      claim(first, b, on);
      unlist(first);
      return_segment(first, b, on);
    }
  }
  void return_segment(iterator first, iterator last, Stream& on) noexcept {
    std::byte* const at = first->first;
    std::size_t bytes = 0;
    while (first != last) {
      bytes += first->second.bytes;
      spare_.push_back(blocks_.extract(first++));
    }
    reserved_ -= bytes;
    from_->deallocate(at, segment_request(bytes), on);
  }

  // Blocks.

  // Ensures that `count` blocks can be added without asking the heap.
  void prepare(std::size_t count) {
    while (spare_.size() < count) {
      if (spare_.capacity() <= made_) spare_.reserve(2 * made_ + 8);
      block_map one;
      index_set its;
      const auto fresh = one.try_emplace(nullptr).first;
      fresh->second.node = its.extract(its.emplace().first);
      spare_.push_back(one.extract(fresh));
      ++made_;
    }
  }
  iterator add(std::byte* at, std::size_t bytes) noexcept {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = at;
    node.mapped().bytes = bytes;
    node.mapped().opens_segment = false;
    node.mapped().handed_out = false;
    return blocks_.insert(std::move(node)).position;
  }
  void hand_out(iterator b, std::size_t bytes) noexcept {
    unlist(b);
    block& whole = b->second;
    if (whole.bytes > bytes) {
      const iterator rest = add(b->first + bytes, whole.bytes - bytes);
      rest->second.home = whole.home;
      rest->second.number = whole.number;
      std::swap(rest->second.last, whole.last);
      list(rest);
      whole.bytes = bytes;
    }
    whole.handed_out = true;
    live_ += bytes;
  }
  void mark(block& b, Stream& on) noexcept {
    b.home = &on;
    on.record(b.last);
    b.number = ++marks_;
  }
  void forget_uses(block& b) noexcept {
    if (b.uses.empty()) return;
    spare_uses_.splice(spare_uses_.end(), b.uses);
    --set_aside_;
  }
  // Blocks whose further streams are done join their stream's.
  void settle() {
    auto next = index_.begin();
    for (std::size_t n = set_aside_; n > 0; --n) {
      const iterator b = blocks_.find(next->at);
      if (n > 1) ++next;
      const auto& uses = b->second.uses;
      if (!std::all_of(uses.begin(), uses.end(), [](const use& u) { return u.last.done(); })) continue;
      unlist(b);
      forget_uses(b->second);
      merge(b);
    }
  }
  // Lists b, together with free neighbours of the same stream.
  void merge(iterator b) noexcept {
    const auto joins = [&](iterator n) {
      return !n->second.handed_out && n->second.uses.empty() && n->second.home == b->second.home;
    };
    const iterator next = std::next(b);
    if (next != blocks_.end() && !next->second.opens_segment && joins(next)) {
      unlist(next);
      absorb_next(b);
    }
    if (!b->second.opens_segment && joins(std::prev(b))) {
      --b;
      unlist(b);
      absorb_next(b);
    }
    list(b);
  }
  void absorb_next(iterator b) noexcept {
    const iterator next = std::next(b);
    b->second.bytes += next->second.bytes;
    if (next->second.number > b->second.number) {
      std::swap(b->second.last, next->second.last);
      b->second.number = next->second.number;
    }
    spare_.push_back(blocks_.extract(next));  // within its capacity
  }
  place place_of(iterator b) const {
    return {b->second.uses.empty() ? b->second.home : nullptr, b->second.bytes, b->first};
  }
  void list(iterator b) noexcept {
    b->second.node.value() = place_of(b);
    index_.insert(std::move(b->second.node));
  }
  void unlist(iterator b) noexcept { b->second.node = index_.extract(place_of(b)); }

  out_of_memory out_of_room(const memory_request& request, const memory_figures& below) {
    std::size_t fits = below.fits == memory_figures::unknown ? 0 : below.fits / Stream::alignment * Stream::alignment;
    for (iterator b = blocks_.begin(); b != blocks_.end(); ++b) fits = std::max(fits, run(b, true).second);
    return shortage("memory pool", request,
                    {.live = live_, .cached = cached_bytes(), .limit = below.limit, .fits = fits});
  }

  basic_resource<Stream>* from_;
  std::size_t segment_bytes_;
  Stream origin_;  // gives segments back when no caller's stream is at hand
  block_map blocks_;
  index_set index_;
  std::vector<typename block_map::node_type> spare_;
  std::list<use> spare_uses_;
  std::size_t made_ = 0;       // nodes of blocks
  std::size_t set_aside_ = 0;  // free blocks that wait for a further stream
  std::size_t marks_ = 0;
  std::size_t live_ = 0;
  std::size_t reserved_ = 0;
};

using pool_resource = basic_pool_resource<stream>;  ///< on the CPU

}  // namespace gradus
