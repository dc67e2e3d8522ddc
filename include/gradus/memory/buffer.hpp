#pragma once
// A reference-counted buffer of bytes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "../core/error.hpp"
#include "context.hpp"

namespace gradus {

/// A shared handle to bytes on device D. Copies share the bytes; the last handle frees them on the buffer's stream.
///
/// Threads may copy and drop handles of one buffer concurrently, so they can share a model. Only the thread that uses
/// the buffer's context drops the last handle or creates parts; see context.
template <class D>
class buffer {
 public:
  constexpr buffer() = default;
  constexpr buffer(context<D>& ctx, std::size_t bytes, category what) : block_(ctx.acquire(bytes, what)) {}
  /// The `bytes` at `data`, which the library did not allocate, as a buffer of `ctx`. They must live until the last
  /// handle ends; then `end(argument)` is called, unless it is null, after the host has waited for the context's stream
  /// (not in a captured step). Never unique(), so that no operation overwrites them. Throws error if `data` is null or
  /// not aligned to D::alignment.
  static buffer borrow(context<D>& ctx, void* data, std::size_t bytes, category what, void (*end)(void*) = nullptr,
                       void* argument = nullptr) {
    if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % D::alignment != 0)
      throw error("borrow(ctx, memory): the address must be a multiple of " + std::to_string(D::alignment) +
                  ", and not null; copy the elements instead");
    return buffer(ctx.borrow(data, bytes, what, end, argument));
  }
  /// A buffer whose memory comes and goes while handles and parts stay: it has none until restore(), and between
  /// evict() and restore(). `by`, unless it is null, is notified of each use of the bytes, as a use of `page`, until
  /// end_paging(). One thread at a time uses such a buffer.
  static constexpr buffer paged(context<D>& ctx, std::size_t bytes, category what, pager* by, std::size_t page = 0) {
    return buffer(ctx.acquire_paged(bytes, what, by, page));
  }
  constexpr buffer(const buffer& other) : block_(other.block_) {
    if (block_ != nullptr) detail::add_use(block_->uses);
  }
  constexpr buffer(buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  constexpr buffer& operator=(buffer other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  constexpr ~buffer() {
    if (block_ != nullptr) drop(block_);
  }

  constexpr explicit operator bool() const { return block_ != nullptr; }
  /// The address of the first byte; of a paged buffer, once its pager has been notified. Null if it is not resident.
  constexpr void* data() const { return block_->paged ? paged_data() : block_->data; }
  /// Notifies the pager of a paged buffer, as data() does; nothing for others, or if there is no buffer.
  constexpr void use() const {
    if (block_ != nullptr && block_->paged) static_cast<void>(paged_data());
  }
  constexpr std::size_t bytes() const { return block_->request.bytes; }
  constexpr context<D>& owner() const { return *block_->owner; }
  /// The request; of a part, the request of the whole with the part's bytes.
  constexpr const memory_request& request() const { return block_->request; }
  /// True if no other handle shares the bytes; a part shares its bytes with all handles of the whole buffer, a borrowed
  /// buffer with its lender.
  constexpr bool unique() const {
    return sole() && !block_->borrowed && (block_->whole == nullptr || detail::uses_now(block_->whole->uses) == 1);
  }
  /// True if no copy of this handle exists; of a part, handles of the whole buffer may exist.
  constexpr bool sole() const { return block_ != nullptr && detail::uses_now(block_->uses) == 1; }
  /// The `bytes` from `offset` on as a buffer that keeps the whole one alive; allocates nothing. Throws error if they
  /// are not inside, or `offset` is not a multiple of the device's alignment.
  constexpr buffer part(std::size_t offset, std::size_t bytes) const {
    if (block_ == nullptr || offset > this->bytes() || bytes > this->bytes() - offset) fail_outside(offset, bytes);
    if (offset % D::alignment != 0) fail_unaligned(offset);
    return buffer(block_->owner->acquire_part(block_, offset, bytes));
  }
  /// The bytes' mark: a gradient (see gradients()) or computed from one, or computed from parameters alone.
  constexpr gradus::origin origin() const { return block_ == nullptr ? gradus::origin::any : block_->origin; }
  constexpr void mark(gradus::origin as) const {
    if (block_ != nullptr && block_->origin != as) block_->origin = as;
  }
  /// Work on `by` uses the bytes, too, so they are freed only after it; see basic_resource::used_on. Throws error if
  /// they are borrowed.
  constexpr void used_on(typename D::stream_type& by) const {
    if (block_->borrowed) fail_borrowed();
    const memory_block<D>& asked_for = block_->whole == nullptr ? *block_ : *block_->whole;
    owner().resource().used_on(asked_for.data, asked_for.request, by);
  }

  /// True for a buffer of paged(), and for its parts.
  constexpr bool is_paged() const { return block_ != nullptr && block_->paged; }
  /// False for a paged buffer without memory.
  constexpr bool is_resident() const {
    return block_ != nullptr && (block_->whole == nullptr ? block_ : block_->whole)->resident;
  }
  /// Requests the memory of a paged buffer, unless it is resident: uninitialised bytes, at the address returned.
  /// Throws out_of_memory, and error if the buffer is not paged, or a part.
  constexpr void* restore() const {
    check_pages("restore");
    if (!block_->resident) owner().restore(*block_);
    return block_->data;
  }
  /// Returns the memory of a paged buffer to the resource; work already submitted to the stream may still use it.
  /// Throws error if the buffer is not paged, or a part.
  constexpr void evict() const {
    check_pages("evict");
    if (block_->resident) owner().evict(*block_);
  }
  /// Uses are not notified any more.
  constexpr void end_paging() const {
    check_pages("end_paging");
    block_->by = nullptr;
  }

 private:
  constexpr explicit buffer(memory_block<D>* block) : block_(block) {}

  GRADUS_NOINLINE static constexpr void drop(memory_block<D>* block) noexcept {
    if (detail::drop_use(block->uses)) block->owner->release(block);
  }
  GRADUS_NOINLINE constexpr void* paged_data() const {
    memory_block<D>& all = block_->whole == nullptr ? *block_ : *block_->whole;
    if (all.by != nullptr) all.by->use(all.page);
    return all.data == nullptr || block_->whole == nullptr ? all.data
                                                           : static_cast<std::byte*>(all.data) + block_->offset;
  }
  constexpr void check_pages(const char* call) const {
    if (!is_paged() || block_->whole != nullptr) fail_no_pages(call);
  }
  [[noreturn]] static void fail_no_pages(const char* call) {
    throw error("buffer." + std::string(call) + "(): the buffer must be one of buffer::paged, and not a part of it");
  }
  [[noreturn]] void fail_outside(std::size_t offset, std::size_t bytes) const {
    throw error("buffer.part(offset, bytes): " + std::to_string(bytes) + " bytes from " + std::to_string(offset) +
                " on are not inside a buffer of " + std::to_string(block_ == nullptr ? 0 : this->bytes()) + " bytes");
  }
  [[noreturn]] static void fail_unaligned(std::size_t offset) {
    throw error("buffer.part(offset, bytes): the offset (" + std::to_string(offset) + ") must be a multiple of " +
                std::to_string(D::alignment));
  }
  [[noreturn]] static void fail_borrowed() {
    throw error("buffer.used_on(stream): the bytes are borrowed; let their lender wait for the stream");
  }

  memory_block<D>* block_ = nullptr;
};

}  // namespace gradus
