#pragma once
// Asynchronous copies between host and device.

#include <span>
#include <string>

#include "../core/device.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "tensor.hpp"

namespace gradus {

/// Host memory for asynchronous copies to and from a device. A copy is submitted and the host continues; it waits when
/// it accesses the values. For a GPU the memory is pinned, without which copies are synchronous.
///
///     gr::staging_buffer<float, gr::cuda> losses{ctx, steps};
///     losses.download(loss.value(), step);  // submitted
///     ...
///     show(losses.values());                // waits if necessary
///
/// Copies of one object go in one direction at a time, with a call of values() in between.
template <class T, class D>
class staging_buffer {
 public:
  /// `size` values, uninitialised, for copies on the stream of `ctx`, which must outlive this object.
  constexpr staging_buffer(context<D>& ctx, index_t size) : ctx_(&ctx), values_(size) {}
  staging_buffer(staging_buffer&&) noexcept = default;
  staging_buffer& operator=(staging_buffer&&) = delete;
  /// Waits for the copies.
  constexpr ~staging_buffer() {
    try {
      passed_.synchronize();
    } catch (const error&) {  // a failed device copies nothing more
    }
  }

  /// The values, after all submitted copies: the host waits for them. Throws the error of a failed device.
  constexpr std::span<T> values() {
    passed_.synchronize();
    return values_.all();
  }
  /// True if values() would not wait.
  constexpr bool arrived() const { return passed_.done(); }

  /// Submits a copy of the values from `from` on to all elements of `to`.
  template <class Shape>
  constexpr void upload(tensor<T, Shape, D>& to, index_t from = 0) {
    if constexpr (D::computes) {
      check(from, to.extents().size);
      device_access<D>::upload(*ctx_, to.data(), values_.all().data() + from, to.extents().size * sizeof(T));
      ctx_->stream().record(passed_);
    }
  }
  /// Submits a copy of all elements of `from` to the values from `to` on.
  template <class Shape>
  constexpr void download(const tensor<T, Shape, D>& from, index_t to = 0) {
    if constexpr (D::computes) download(from.data(), from.extents().size, to);
  }
  /// Submits a copy of `count` elements at an address on the device to the values from `to` on.
  constexpr void download(const T* from, index_t count, index_t to) {
    if constexpr (D::computes) {
      check(to, count);
      device_access<D>::download_later(*ctx_, values_.all().data() + to, from, count * sizeof(T));
      ctx_->stream().record(passed_);
    }
  }

 private:
  constexpr void check(index_t begin, index_t count) const {
    if (begin > values_.all().size() || count > values_.all().size() - begin)
      throw error("staging_buffer: a tensor of " + std::to_string(count) + " elements at " + std::to_string(begin) +
                  " does not fit into " + std::to_string(values_.all().size()) + " values");
  }

  context<D>* ctx_;
  typename device_access<D>::template host_values<T> values_;
  typename D::stream_type::event passed_;
};

}  // namespace gradus
