#pragma once
#include <cstddef>
#include <utility>

#include "context.hpp"

namespace gradus {

/// A shared handle to a run of bytes on device D. Copies share; the last one gives the memory back on its own stream.
template <class D>
class buffer {
 public:
  constexpr buffer() = default;
  constexpr buffer(context<D>& ctx, std::size_t bytes, category what) : block_(ctx.acquire(bytes, what)) {}
  constexpr buffer(const buffer& other) : block_(other.block_) {
    if (block_ != nullptr) ++block_->uses;
  }
  constexpr buffer(buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  constexpr buffer& operator=(buffer other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  constexpr ~buffer() {
    if (block_ != nullptr && --block_->uses == 0) block_->owner->release(block_);
  }

  constexpr explicit operator bool() const { return block_ != nullptr; }
  constexpr void* data() const { return block_->data; }
  constexpr std::size_t bytes() const { return block_->request.bytes; }
  constexpr context<D>& owner() const { return *block_->owner; }
  constexpr const memory_request& request() const { return block_->request; }
  /// True when no other handle shares the bytes, so that they may be overwritten.
  constexpr bool unique() const { return block_ != nullptr && block_->uses == 1; }
  /// Says that work on `by`, too, uses the bytes, which are then kept until it is done; see basic_resource::used_on.
  constexpr void used_on(typename D::stream_type& by) const {
    owner().resource().used_on(block_->data, block_->request, by);
  }

 private:
  memory_block<D>* block_ = nullptr;
};

}  // namespace gradus
