#pragma once
// The bookkeeping of a pool: its blocks, used and free.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "stream.hpp"

namespace gradus::detail {

/// Which ranges of a pool's segments are in use, and which are free for which stream. Splits and merges ranges; the
/// pool chooses among them. prepare() and use_on() create the nodes of all containers, which then move between
/// containers: the noexcept functions, and a steady state, do not allocate.
template <class Stream>
class block_table {
  static_assert(event_stream<Stream>);
  using event = typename Stream::event;
  struct use {
    Stream* by = nullptr;
    event last{};
  };
  // The key of a free range in the index, by stream and size. Ranges that wait for another stream have none.
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

 public:
  /// A range of a segment.
  struct block {
    std::size_t bytes = 0;
    bool opens_segment = false;
    bool handed_out = false;
    const Stream* home = nullptr;          // that freed it, at `last`
    event last{};                          // streams run in order: the later of two events suffices
    std::size_t number = 0;                // of that event: the larger is later
    std::list<use> uses{};                 // on other streams
    typename index_set::node_type node{};  // if the block is not in the index

    /// Free, but waiting until other streams are done.
    bool set_aside() const { return !handed_out && !uses.empty(); }
  };
  using map_type = std::map<std::byte*, block>;
  using iterator = typename map_type::iterator;
  static constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 2;  ///< larger than any block

  iterator begin() { return blocks_.begin(); }
  iterator end() { return blocks_.end(); }

  /// The block that contains an address, or end().
  iterator containing(std::byte* at) {
    const auto after = blocks_.upper_bound(at);
    if (after == blocks_.begin()) return blocks_.end();
    const auto b = std::prev(after);
    return at < b->first + b->second.bytes ? b : blocks_.end();
  }
  /// The smallest block of at least `bytes` that `home` freed, or end().
  iterator best_fit(const Stream* home, std::size_t bytes) {
    const auto fit = index_.lower_bound({home, bytes, nullptr});
    return fit != index_.end() && fit->home == home ? blocks_.find(fit->at) : blocks_.end();
  }
  /// Iterates over the streams with free blocks: the one after `home`, the first for null; null at the end.
  const Stream* next_home(const Stream* home) const {
    const auto next = index_.upper_bound({home, most, nullptr});
    return next == index_.end() ? nullptr : next->home;
  }
  /// The end of the run of free neighbours that starts at b in its segment, and their bytes.
  std::pair<iterator, std::size_t> run(iterator b, bool also_set_aside) {
    std::size_t sum = 0;
    iterator i = b;
    for (; i != blocks_.end() && (i == b || !i->second.opens_segment); ++i) {
      if (i->second.handed_out || (i->second.set_aside() && !also_set_aside)) break;
      sum += i->second.bytes;
    }
    return {i, sum};
  }
  /// The end of b's segment.
  iterator segment_end(iterator b) {
    do ++b;
    while (b != blocks_.end() && !b->second.opens_segment);
    return b;
  }

  /// Ensures that `count` blocks can be added without allocating.
  void prepare(std::size_t count) {
    while (spare_.size() < count) {
      if (spare_.capacity() <= made_) spare_.reserve(2 * made_ + 8);
      map_type one;
      index_set its;
      const auto fresh = one.try_emplace(nullptr).first;
      fresh->second.node = its.extract(its.emplace().first);
      spare_.push_back(one.extract(fresh));
      ++made_;
    }
  }
  /// Adds a segment as one free block, usable once `on` gets here. Uses a prepared block.
  iterator add_segment(std::byte* at, std::size_t bytes, Stream& on) noexcept {
    const iterator b = add(at, bytes);
    b->second.opens_segment = true;
    mark(b->second, on);
    list(b);
    return b;
  }
  /// Removes the blocks of a segment; returns its bytes.
  std::size_t remove_segment(iterator first, iterator last) noexcept {
    std::size_t bytes = 0;
    while (first != last) {
      if (!first->second.handed_out) unlist(first);
      forget_uses(first->second);
      bytes += first->second.bytes;
      spare_.push_back(blocks_.extract(first++));
    }
    return bytes;
  }
  /// Marks the first `bytes` of a free block as used; the rest stays free. Uses a prepared block.
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
  }
  /// Notes that work on `by`, too, uses a used block.
  void use_on(iterator b, Stream& by) {
    auto& uses = b->second.uses;
    if (std::any_of(uses.begin(), uses.end(), [&](const use& u) { return u.by == &by; })) return;
    if (spare_uses_.empty()) spare_uses_.emplace_back();
    spare_uses_.front().by = &by;
    uses.splice(uses.end(), spare_uses_, spare_uses_.begin());
  }
  /// Frees a block: at once for `on`, for others after its other streams have got here.
  void give_back(iterator b, Stream& on) noexcept {
    auto& uses = b->second.uses;
    mark(b->second, on);
    for (auto u = uses.begin(); u != uses.end();) {
      const auto here = u++;
      if (here->by != &on) here->by->record(here->last);
      else spare_uses_.splice(spare_uses_.end(), uses, here);
    }
    b->second.handed_out = false;
    if (uses.empty()) {
      merge(b);
    } else {
      ++set_aside_;
      list(b);
    }
  }
  /// Frees the waiting blocks whose other streams are done.
  void settle() {
    auto next = index_.begin();  // without a home they are first
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
  /// Merges free neighbours into one block, `first`, freed by `on`, which waits for all streams that may use them.
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

 private:
  iterator add(std::byte* at, std::size_t bytes) noexcept {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = at;
    node.mapped().bytes = bytes;
    node.mapped().opens_segment = false;
    node.mapped().handed_out = false;
    return blocks_.insert(std::move(node)).position;
  }
  void mark(block& b, Stream& on) noexcept {
    b.home = &on;
    on.record(b.last);
    b.number = ++marks_;
  }
  void forget_uses(block& b) noexcept {
    if (b.set_aside()) --set_aside_;
    spare_uses_.splice(spare_uses_.end(), b.uses);
  }
  // Adds b to the index, merged with free neighbours of the same stream.
  void merge(iterator b) noexcept {
    const auto joins = [&](iterator n) {
      return !n->second.handed_out && !n->second.set_aside() && n->second.home == b->second.home;
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
    return {b->second.set_aside() ? nullptr : b->second.home, b->second.bytes, b->first};
  }
  void list(iterator b) noexcept {
    b->second.node.value() = place_of(b);
    index_.insert(std::move(b->second.node));
  }
  void unlist(iterator b) noexcept { b->second.node = index_.extract(place_of(b)); }

  map_type blocks_;  // by address
  index_set index_;  // free blocks
  std::vector<typename map_type::node_type> spare_;
  std::list<use> spare_uses_;
  std::size_t made_ = 0;  // blocks, used and spare
  std::size_t set_aside_ = 0;
  std::size_t marks_ = 0;
};

}  // namespace gradus::detail
