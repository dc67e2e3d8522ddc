#pragma once
// The link to host memory: copies of results that checkpoint regions offload.

#include <cstddef>
#include <optional>
#include <type_traits>

#include "../core/device.hpp"
#include "../core/error.hpp"
#include "buffer.hpp"
#include "context.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

namespace detail {

// True if work of D runs when it is submitted.
template <class D>
inline constexpr bool runs_at_once = std::is_same_v<typename D::stream_type::event, done_event>;

/// Copies buffers of a context to host memory and back. On a device whose work is asynchronous the copies have a stream
/// of their own: they run beside the context's work that was submitted after begin().
///
/// Only this stream touches the host memory, so a block that is freed when its copy back has been submitted can be the
/// target of the next copy out.
template <class D>
class offload_link {
 public:
  explicit offload_link(context<D>& ctx) : ctx_(&ctx) {
    if constexpr (!runs_at_once<D>) {
      make_beside(own_, ctx.stream());
      beside_.emplace(*own_, ctx.resource());
    }
  }
  offload_link(const offload_link&) = delete;
  offload_link& operator=(const offload_link&) = delete;

  /// Takes host memory from `memory`. No result may be offloaded at the time.
  void use(memory_resource& memory) { host_.emplace(host_stream_, memory); }
  /// Host memory for a copy. Throws error if there is none to take it from.
  buffer<cpu> reserve(std::size_t bytes, category what) {
    if constexpr (!D::computes) {
      return {};
    } else {
      if (!host_) use_default();
      return buffer<cpu>(*host_, bytes, what);
    }
  }

  /// Later copies run after the work that the context's stream has now.
  void begin() {
    if constexpr (!runs_at_once<D>) {
      ctx_->stream().record(before_);
      own_->wait(before_);
    }
  }
  void copy_out(const buffer<cpu>& to, const buffer<D>& from, std::size_t bytes) {
    device_access<D>::download_later(copying(), to ? to.data() : nullptr, from.data(), bytes);
  }
  void copy_in(const buffer<D>& to, const buffer<cpu>& from, std::size_t bytes) {
    device_access<D>::upload(copying(), to.data(), from ? from.data() : nullptr, bytes);
  }
  /// The copies since begin() are all that wait() waits for.
  void end() {
    if constexpr (!runs_at_once<D>) own_->record(after_);
  }
  /// Later work of the context's stream runs after the copies before the last end().
  void wait() {
    if constexpr (!runs_at_once<D>) ctx_->stream().wait(after_);
  }

 private:
  struct none {};
  template <class Access>
  struct default_memory {
    using type = none;
  };
  template <class Access>
    requires requires { typename Access::offload_memory; }
  struct default_memory<Access> {
    using type = typename Access::offload_memory;
  };
  using own_memory = typename default_memory<device_access<D>>::type;
  void use_default() {
    if constexpr (std::is_same_v<own_memory, none>)
      throw error(
          "checkpoint: a region offloads results, and there is no memory for them; call gr::offload_to(ctx, memory)");
    else use(memory_.resource());
  }
  context<D>& copying() {
    if constexpr (runs_at_once<D>) return *ctx_;
    else return *beside_;
  }

  context<D>* ctx_;
  stream host_stream_;
  [[no_unique_address]] own_memory memory_;
  std::optional<context<cpu>> host_;
  typename D::stream_type::event before_, after_;
  std::optional<typename D::stream_type> own_;
  std::optional<context<D>> beside_;
};

}  // namespace detail

/// Results that checkpoint regions of `ctx` offload go to host memory from `memory`, which must outlive `ctx`. On a GPU
/// it must be pinned, and freed memory must be kept for reuse, as by a pool over a pinned_resource, which is what a GPU
/// uses unless told otherwise; on the CPU it may lie in a mapped file, and there is no default. Call it while nothing
/// is offloaded. On meta it does nothing.
template <class D>
void offload_to(context<D>& ctx, memory_resource& memory) {
  if constexpr (D::computes) ctx.template get<detail::offload_link<D>>().use(memory);
}

}  // namespace gradus
