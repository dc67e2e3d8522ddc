#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "../core/device.hpp"
#include "resource.hpp"

namespace gradus {

/// Control block of one reference-counted buffer. It remembers its context, hence its stream and its resource.
template <class D>
struct memory_block {
  context<D>* owner = nullptr;
  void* data = nullptr;
  memory_request request{};
  std::size_t uses = 0;
  memory_block* next_free = nullptr;
};

/// A stream plus a memory resource: where work runs and where its memory comes from. Tensors refer to the context they
/// were made in, which must outlive them. One thread uses a context at a time.
template <class D>
class context {
 public:
  using device = D;
  using stream_type = typename D::stream_type;
  using resource_type = typename D::resource_type;

  constexpr context(stream_type& on, resource_type& from) : stream_(&on), resource_(&from) {}
  context(const context&) = delete;
  context& operator=(const context&) = delete;
  constexpr ~context() {
    if (!std::is_constant_evaluated()) {
      // Last made first: a service may use those that were there before it.
      for (auto s = services_.rbegin(); s != services_.rend(); ++s) s->destroy(s->object);
      for (memory_block<D>* chunk : chunks_) delete[] chunk;
    }
  }

  constexpr stream_type& stream() const { return *stream_; }
  constexpr resource_type& resource() const { return *resource_; }

  /// A buffer of `bytes` with one use. Throws out_of_memory.
  constexpr memory_block<D>* acquire(std::size_t bytes, category what) {
    memory_block<D>* b = take_block();
    b->owner = this;
    b->request.bytes = bytes;
    b->request.what = what;
    b->request.id = requests_++;
    b->request.source = current_.name;
    b->request.phase = current_.phase;
    b->uses = 1;
    try {
      b->data = resource_->allocate(b->request, *stream_);
    } catch (...) {
      put_block(b);
      throw;
    }
    return b;
  }
  constexpr void release(memory_block<D>* b) {
    resource_->deallocate(b->data, b->request, *stream_);
    put_block(b);
  }

  /// Keeps other threads out of the context while it lives: for what several threads may share, such as the parameters of a
  /// const model. Does not nest.
  class exclusive {
   public:
    constexpr explicit exclusive(context& ctx) : ctx_(&ctx) {
      if (!std::is_constant_evaluated())
        while (__atomic_exchange_n(&ctx_->taken_, true, __ATOMIC_ACQUIRE)) {}
    }
    exclusive(const exclusive&) = delete;
    exclusive& operator=(const exclusive&) = delete;
    constexpr ~exclusive() {
      if (!std::is_constant_evaluated()) __atomic_store_n(&ctx_->taken_, false, __ATOMIC_RELEASE);
    }

   private:
    context* ctx_;
  };

  /// What runs now; requests for memory are labelled with it.
  constexpr const activity& current() const { return current_; }
  /// Tells `who` of every operation from now on; null ends that.
  constexpr void observe(observer* who) { observer_ = who; }
  constexpr observer* observed_by() const { return observer_; }

  /// Makes `what` the current activity while it lives.
  class running {
   public:
    constexpr running(context& ctx, const activity& what) : ctx_(&ctx), before_(ctx.current_) {
      if (ctx.observer_ != nullptr) ctx.observer_->begin(what);  // may throw
      ctx.current_ = what;
    }
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    constexpr ~running() {
      if (ctx_->observer_ != nullptr) ctx_->observer_->end(ctx_->current_);
      ctx_->current_ = before_;
    }

   private:
    context* ctx_;
    activity before_;
  };

  /// The one object of type T that belongs to this context, made from the context on first use and kept until the context
  /// ends: library handles, tuned plans, compiled primitives.
  template <class T>
  T& get() {
    for (const service& s : services_)
      if (s.key == &service_key<T>) return *static_cast<T*>(s.object);
    auto made = std::make_unique<T>(*this);
    services_.push_back({&service_key<T>, made.get(), [](void* p) { delete static_cast<T*>(p); }});
    return *made.release();
  }

 private:
  struct service {
    const void* key;
    void* object;
    void (*destroy)(void*);
  };
  template <class T>
  static constexpr char service_key = 0;
  static constexpr std::size_t chunk_size = 128;

  // Control blocks are recycled, so that a steady state asks the heap for nothing.
  constexpr memory_block<D>* take_block() {
    if (std::is_constant_evaluated()) return new memory_block<D>;
    if (free_ == nullptr) {
      chunks_.reserve(chunks_.size() + 1);
      auto* chunk = new memory_block<D>[chunk_size];
      chunks_.push_back(chunk);
      for (std::size_t i = 0; i < chunk_size; ++i) {
        chunk[i].next_free = free_;
        free_ = &chunk[i];
      }
    }
    memory_block<D>* b = free_;
    free_ = b->next_free;
    return b;
  }
  constexpr void put_block(memory_block<D>* b) {
    if (std::is_constant_evaluated()) {
      delete b;
      return;
    }
    b->next_free = free_;
    free_ = b;
  }

  stream_type* stream_;
  resource_type* resource_;
  activity current_{};
  observer* observer_ = nullptr;
  std::size_t requests_ = 0;
  bool taken_ = false;
  memory_block<D>* free_ = nullptr;
  std::vector<memory_block<D>*> chunks_;
  std::vector<service> services_;
};

context(stream&, memory_resource&) -> context<cpu>;

}  // namespace gradus
