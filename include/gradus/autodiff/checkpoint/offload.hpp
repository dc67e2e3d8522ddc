#pragma once
// The results that checkpoint regions keep in host memory, and when they move.
//
//   when                                          results of the region before         results of this region
//   a region, or another part of a chain, begins  their copy to host memory begins
//   it ends                                       the copy is awaited, and their
//                                                 device memory is freed
//   a region is replayed                          they get device memory, and their    their copy back is awaited
//                                                 copy back begins
//
// So a copy runs while one region computes, and at most two regions' results are on the device. The last region's
// results stay there, because backward needs them first. All of this happens at the same points of a step on every
// device, so a plan is exact.

#include <cstddef>
#include <string_view>
#include <utility>

#include "../../core/cost.hpp"
#include "../../memory/buffer.hpp"
#include "../../memory/context.hpp"
#include "../../memory/offload_link.hpp"
#include "kept_results.hpp"

namespace gradus {

template <class D>
class tape;

namespace detail {

// False if there is nothing to copy and to wait for: on meta.
template <class D>
inline constexpr bool has_link = D::computes || !runs_at_once<D>;

/// A buffer of a kept result, on the device, in host memory or on its way.
template <class D>
struct offloaded_buffer {
  void (*destroy)(offloaded_buffer*) = nullptr;
  offloaded_buffer* next = nullptr;
  memory_request request{};  // of the buffer
  std::size_t used = 0;      // bytes that are copied; 0: the buffer was shared and stayed in its tensor
  buffer<D> device;
  buffer<cpu> host;
};

/// The results that one region keeps in host memory.
template <class D>
class offload_group {
 public:
  constexpr offload_group(tape<D>& on, kept_results<D>& of) : on_(&on), kept_(&of) {}
  offload_group(const offload_group&) = delete;
  offload_group& operator=(const offload_group&) = delete;
  constexpr ~offload_group() {
    while (first_ != nullptr) remove_first();
  }

  /// A place for a buffer with `used` bytes of contents; null if other handles share it, so that moving it frees
  /// nothing.
  constexpr offloaded_buffer<D>* reserve(const buffer<D>& from, std::size_t used) {
    const bool moves = from.unique() && used > 0;
    buffer<cpu> host;
    if constexpr (has_link<D>)
      if (moves) host = link().reserve(used, from.request().what);
    auto* b = on_->template place<offloaded_buffer<D>>();
    *(first_ == nullptr ? &first_ : &last_->next) = b;
    last_ = b;
    if (!moves) return nullptr;
    b->request = from.request();
    b->used = used;
    b->host = std::move(host);
    bytes_ += used;
    return b;
  }
  /// Removes the next buffer and returns it; an empty one if it stayed in its tensor.
  constexpr buffer<D> next() {
    if (first_ == nullptr) return {};
    buffer<D> b = std::move(first_->device);
    remove_first();
    return b;
  }

 private:
  template <class>
  friend class offload_list;

  // Where the results are. While they are on their way, the link copies them.
  enum class place { device, leaving, host, returning };

  constexpr auto& link() const { return owner().template get<offload_link<D>>(); }
  constexpr context<D>& owner() const { return on_->owner(); }
  constexpr typename context<D>::running activity(std::string_view name) const {
    const bool copies = name != copy_wait_name;
    return {owner(), name, on_->phase_, cost{0, copies ? bytes_ : 0, copies ? bytes_ : 0}};
  }
  constexpr void remove_first() {
    offloaded_buffer<D>* const b = std::exchange(first_, first_->next);
    b->destroy(b);
  }

  constexpr void leave() {
    try {
      kept_->move_to(*this);
    } catch (...) {
      put_back();
      throw;
    }
    const auto now = activity(offload_name);
    at_ = place::leaving;
    if constexpr (has_link<D>) {
      link().begin();
      for (auto* b = first_; b != nullptr; b = b->next)
        if (b->used > 0) link().copy_out(b->host, b->device, b->used);
      link().end();
    }
  }
  constexpr void free_device() {
    wait();
    for (auto* b = first_; b != nullptr; b = b->next) b->device = {};
    at_ = place::host;
  }
  constexpr void come_back() {
    const auto now = activity(fetch_name);
    for (auto* b = first_; b != nullptr; b = b->next)
      if (b->used > 0) b->device = buffer<D>(owner(), b->request.bytes, b->request.what);
    at_ = place::returning;
    if constexpr (has_link<D>) {
      link().begin();
      for (auto* b = first_; b != nullptr; b = b->next)
        if (b->used > 0) {
          link().copy_in(b->device, b->host, b->used);
          b->host = {};
        }
      link().end();
    }
  }
  constexpr void wait() const {
    const auto now = activity(copy_wait_name);
    if constexpr (has_link<D>) link().wait();
  }
  constexpr void put_back() {
    kept_->move_from(*this);
    at_ = place::device;
    bytes_ = 0;
  }

  tape<D>* on_;
  kept_results<D>* kept_;
  offload_group* previous_ = nullptr;  // of an earlier region
  std::size_t region_ = 0;             // regions on the tape before this one
  place at_ = place::device;
  std::size_t bytes_ = 0;  // copied
  offloaded_buffer<D>* first_ = nullptr;
  offloaded_buffer<D>* last_ = nullptr;
};

/// The regions of a tape that keep results in host memory. Regions begin and end like a stack.
template <class D>
class offload_list {
  using group = offload_group<D>;
  using place = typename group::place;

 public:
  /// See tape::begin_part().
  constexpr void begin_part() {
    if (pending_ == nullptr) return;
    group* const g = std::exchange(pending_, nullptr);
    g->leave();
    leaving_ = g;
  }
  constexpr void end_part() {
    if (leaving_ != nullptr) std::exchange(leaving_, nullptr)->free_device();
  }
  /// Adds a region that was recorded.
  constexpr void add(group& g) {
    g.region_ = regions_++;
    if (!g.kept_->offloads()) return;
    g.previous_ = last_;
    last_ = pending_ = &g;
  }
  /// The region of `g` is replayed next: its results are on the device, and the results of the region before it return.
  constexpr void prepare_replay(group& g) {
    group* before = last_;
    if (before == &g) {
      before = g.previous_;
      bring(g);
    }
    if (before != nullptr && before->at_ == place::host && before->region_ + 1 == g.region_) before->come_back();
  }
  /// Removes the last region.
  constexpr void remove(group& g) noexcept {
    regions_ = g.region_;
    if (last_ != &g) return;
    last_ = g.previous_;
    if (pending_ == &g) pending_ = nullptr;
    if (leaving_ == &g) leaving_ = nullptr;
    try {
      if (g.at_ == place::leaving || g.at_ == place::returning) g.wait();
    } catch (...) {  // a failed stream no longer uses the memory
    }
  }

 private:
  constexpr void bring(group& g) {
    if (pending_ == &g) pending_ = nullptr;
    if (leaving_ == &g) end_part();
    if (g.at_ == place::host) g.come_back();
    if (g.at_ == place::returning) g.wait();
    if (g.at_ != place::device) g.put_back();
  }

  group* last_ = nullptr;
  group* pending_ = nullptr;  // the last region, if its results are on the device
  group* leaving_ = nullptr;
  std::size_t regions_ = 0;
};

}  // namespace detail

}  // namespace gradus
