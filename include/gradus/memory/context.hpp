#pragma once
// A context: a stream, a memory resource, and what belongs to them.

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/device.hpp"
#include "../core/error.hpp"
#include "../core/platform.hpp"
#include "activity.hpp"
#include "generation_counter.hpp"
#include "memory_block.hpp"
#include "resource.hpp"
#include "service_table.hpp"

namespace gradus {

/// A stream and a memory resource: where work runs and where its memory comes from. Tensors refer to their context; its
/// destruction while buffers are in use ends the program with one line on stderr.
///
/// One thread at a time uses a context. Threads that share a model each use their own stream and context.
template <class D>
class context {
 public:
  using device = D;
  using stream_type = typename D::stream_type;
  using resource_type = typename D::resource_type;

  constexpr context(stream_type& on, resource_type& from) : stream_(&on), resource_(&from) { set_user(); }
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  constexpr stream_type& stream() const { return *stream_; }
  constexpr resource_type& resource() const { return *resource_; }

  /// The current activity of this context, and its observer.
  constexpr activity_log& activities() { return activities_; }
  constexpr const activity_log& activities() const { return activities_; }

  /// The object of type T that belongs to this context, constructed from it at first use: library handles, tuned plans.
  template <class T>
  T& get() {
    return services_.template get<T>(*this);
  }

  /// Counters for the tapes of this context.
  constexpr detail::generation_counters& generations() { return generations_; }

  /// A buffer of `bytes` with reference count 1. Throws out_of_memory.
  GRADUS_NOINLINE constexpr memory_block<D>* acquire(std::size_t bytes, category what) {
    memory_block<D>* b = describe(bytes, what);
    ++requests_;
    try {
      b->data = resource_->allocate(b->request, *stream_);
    } catch (...) {
      blocks_.put(b);
      throw;
    }
    return b;
  }
  /// Wraps foreign memory, which the resource did not allocate, in a block with reference count 1. When its last handle
  /// goes, calls `end(argument)`, unless `end` is null, instead of freeing it.
  memory_block<D>* borrow(void* data, std::size_t bytes, category what, void (*end)(void*), void* argument) {
    memory_block<D>* b = describe(bytes, what);
    b->data = data;
    b->borrowed = true;
    b->end = end;
    b->end_argument = argument;
    return b;
  }
  /// A block whose memory comes and goes, without memory so far. See buffer::paged.
  constexpr memory_block<D>* acquire_paged(std::size_t bytes, category what, pager* by, std::size_t page) {
    memory_block<D>* b = describe(bytes, what);
    b->data = nullptr;
    b->paged = true;
    b->resident = false;
    b->by = by;
    b->page = page;
    return b;
  }
  /// Requests the memory of a paged block again, as part of the current activity. Throws out_of_memory.
  GRADUS_NOINLINE constexpr void restore(memory_block<D>& b) {
    set_user();
    stamp(b.request);
    ++requests_;
    b.data = resource_->allocate(b.request, *stream_);
    b.resident = true;
  }
  /// Returns the memory of a paged block, which is resident.
  GRADUS_NOINLINE constexpr void evict(memory_block<D>& b) noexcept {
    resource_->deallocate(b.data, b.request, *stream_);
    b.data = nullptr;
    b.resident = false;
  }
  /// A part of `of`, or of its whole buffer if `of` is a part, with reference count 1.
  GRADUS_NOINLINE constexpr memory_block<D>* acquire_part(memory_block<D>* of, std::size_t offset, std::size_t bytes) {
    memory_block<D>* b = blocks_.take();
    b->owner = this;
    b->request = of->request;
    b->request.bytes = bytes;
    b->data = of->data == nullptr || of->paged ? nullptr : static_cast<std::byte*>(of->data) + offset;
    b->offset = of->whole == nullptr ? offset : of->offset + offset;
    b->uses = 1;
    b->origin = origin::any;
    b->borrowed = of->borrowed;
    b->paged = of->paged;
    b->whole = of->whole == nullptr ? of : of->whole;
    detail::add_use(b->whole->uses);
    return b;
  }
  /// Frees a block without references.
  GRADUS_NOINLINE constexpr void release(memory_block<D>* b) {
    memory_block<D>* const whole = b->whole;
    if (whole == nullptr) {
      if (b->borrowed) end_of_borrowed(*b);
      else if (b->resident) resource_->deallocate(b->data, b->request, *stream_);
    }
    blocks_.put(b);
    if (whole != nullptr && detail::drop_use(whole->uses)) release(whole);
  }

  /// True if the calling thread uses the context: it created it, or was the last to request memory from it.
  constexpr bool is_used_by_caller() const {
    if (std::is_constant_evaluated()) return true;
    return platform::is_same(__atomic_load_n(&user_, __ATOMIC_RELAXED), platform::this_thread());
  }

  /// Locks other threads out of the context during its lifetime: for objects that threads share, such as the parameters
  /// of a const model. Does not change the context's user. Does not nest.
  class exclusive {
   public:
    constexpr explicit exclusive(context& ctx) : ctx_(&ctx) {
      if (std::is_constant_evaluated()) return;
      while (__atomic_exchange_n(&ctx_->taken_, true, __ATOMIC_ACQUIRE)) {}
      user_ = __atomic_load_n(&ctx_->user_, __ATOMIC_RELAXED);
    }
    exclusive(const exclusive&) = delete;
    exclusive& operator=(const exclusive&) = delete;
    constexpr ~exclusive() {
      if (std::is_constant_evaluated()) return;
      __atomic_store_n(&ctx_->user_, user_, __ATOMIC_RELAXED);
      __atomic_store_n(&ctx_->taken_, false, __ATOMIC_RELEASE);
    }

   private:
    context* ctx_;
    platform::thread user_{};
  };

  /// activities().current().
  constexpr const activity& current() const { return activities_.current(); }
  constexpr void observe(observer* who) { activities_.observe(who); }
  constexpr observer* observed_by() const { return activities_.observed_by(); }
  /// Makes an activity the current one during its lifetime.
  class running : public activity_log::running {
   public:
    constexpr running(context& ctx, const activity& what) : running(ctx, what.name, what.phase, what.work) {}
    constexpr running(context& ctx, std::string_view name, gradus::phase phase, const cost& work)
        : activity_log::running(ctx.activities_, name, phase, work) {}
  };

 private:
  constexpr memory_block<D>* describe(std::size_t bytes, category what) {
    set_user();
    memory_block<D>* b = blocks_.take();
    b->owner = this;
    b->request.bytes = bytes;
    b->request.what = what;
    stamp(b->request);
    b->uses = 1;
    b->origin = origin::any;
    b->borrowed = false;
    b->paged = false;
    b->resident = true;
    return b;
  }
  // Numbers a request, and names what asks for it.
  constexpr void stamp(memory_request& r) const {
    r.id = requests_;
    r.source = activities_.current().name;
    r.phase = activities_.current().phase;
  }
  // The lender does not know the stream, so the host waits for it.
  void end_of_borrowed(const memory_block<D>& b) noexcept {
    if (b.end == nullptr) return;
    try {
      stream_->synchronize();
    } catch (const error&) {  // a failed stream no longer uses it
    }
    b.end(b.end_argument);
  }
  constexpr void set_user() {
    if (!std::is_constant_evaluated()) __atomic_store_n(&user_, platform::this_thread(), __ATOMIC_RELAXED);
  }

  stream_type* stream_;
  resource_type* resource_;
  activity_log activities_;
  std::size_t requests_ = 0;
  platform::thread user_{};
  bool taken_ = false;
  detail::generation_counters generations_;
  detail::block_store<D> blocks_;
  detail::service_table services_;  // destroyed first: services may hold buffers
};

context(stream&, memory_resource&) -> context<cpu>;

}  // namespace gradus
