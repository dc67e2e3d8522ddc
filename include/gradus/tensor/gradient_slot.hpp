#pragma once
// Where the gradient of a value accumulates.

#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "failures.hpp"
#include "tensor.hpp"
#include "touched_rows.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {
/// forward(ctx, to, from, n, accumulate) rounds each of the n elements of `from` once and writes or adds it to `to`.
struct convert {};
}  // namespace op::inline GRADUS_BUILD

/// The base of all gradient slots.
class any_slot {};

namespace detail {
// The operations of slots, for all shapes: `value` is the accumulated gradient, `storage` the memory for it, if given.
template <class D>
GRADUS_NOINLINE constexpr void make_gradient_unique(buffer<D>& value, const buffer<D>& storage) {
  if (storage || value.unique()) return;
  buffer<D> copy(value.owner(), value.bytes(), category::gradient);
  device_access<D>::copy(copy.owner(), copy.data(), std::as_const(value).data(), value.bytes());
  value = std::move(copy);
}
// Prepares `value` for a contribution; returns true if it must be added.
template <class D>
GRADUS_NOINLINE constexpr bool open_gradient(context<D>& ctx, std::size_t bytes, buffer<D>& value,
                                             const buffer<D>& storage) {
  if (value) {
    make_gradient_unique(value, storage);
    return true;
  }
  if (storage) value = storage;
  else value = buffer<D>(ctx, bytes, category::gradient);
  return false;
}
template <class T, class D>
GRADUS_OF_BUILD GRADUS_NOINLINE constexpr void give_gradient(buffer<D> gradient, buffer<D>& value,
                                                             const buffer<D>& storage, index_t elements) {
  if (!value) {
    if (storage) device_access<D>::copy(storage.owner(), storage.data(), gradient.data(), storage.bytes());
    // Not a conditional expression: g++ 12 destroys its temporaries twice in a constant expression.
    if (storage) value = storage;
    else value = std::move(gradient);
    return;
  }
  if (!storage && !value.unique() && gradient.unique()) std::swap(value, gradient);
  make_gradient_unique(value, storage);
  if constexpr (D::computes)
    kernel<op::convert, D>::forward(value.owner(), static_cast<T*>(value.data()),
                                    static_cast<const T*>(gradient.data()), elements, true);
}
}  // namespace detail

/// Accumulates the gradient of one value: assigns the first contribution, adds later ones.
template <class Tensor>
class gradient_slot : public any_slot {
 public:
  using tensor_type = Tensor;
  using device = typename Tensor::device;

  constexpr const Tensor& value() const { return value_; }
  /// The gradient, marked as such, so that no recording takes it for a constant; a shared tensor keeps its mark.
  constexpr const Tensor& marked() {
    if (value_ && value_.storage().origin() != origin::gradient) {
      if (!value_.storage().sole()) value_ = Tensor(value_.storage().part(0, Tensor::bytes), value_.extents());
      value_.storage().mark(origin::gradient);
    }
    return value_;
  }
  constexpr Tensor take() { return std::exchange(value_, Tensor{}); }
  constexpr void clear() {
    if (rows_ != nullptr && value_) zero_rows();
    value_ = Tensor{};
  }

  /// Makes the gradient accumulate in `storage`, possibly part of a larger buffer: the first contribution overwrites,
  /// clear() keeps it, an empty tensor ends that. All owners see the changes. Throws error if a gradient exists.
  constexpr void place(Tensor storage) {
    if (value_) detail::fail_placed_gradient();
    if (rows_ != nullptr) detail::fail_placed_rows();
    storage_ = std::move(storage);
  }
  /// True if the gradient accumulates in the storage of place().
  constexpr bool is_placed() const { return static_cast<bool>(storage_); }

  /// Makes the gradient accumulate in `storage`, which is zero, and keeps in `rows` which of its rows are not: clear()
  /// sets these to 0. `rows` must live as long as the slot. Throws error if there is a gradient, or memory of place().
  constexpr void track(touched_rows& rows, Tensor storage) {
    if (value_ || storage_) detail::fail_placed_rows();
    rows_ = &rows;
    storage_ = std::move(storage);
  }
  /// The rows of track(), or null.
  constexpr touched_rows* rows() const { return rows_; }

  /// Adds a gradient that exists as a tensor; keeps the first one without a copy.
  GRADUS_OF_BUILD constexpr void give(Tensor gradient) {
    if (rows_ != nullptr) rows_->add_all();
    value_.extents_ = gradient.extents();
    detail::give_gradient<typename Tensor::value_type>(std::move(gradient.storage_), value_.storage_, storage_.storage_,
                                                       value_.extents().size);
  }

  /// Where a kernel writes its contribution: it must overwrite, or add if `accumulate`.
  struct target {
    Tensor& tensor;
    bool accumulate;
    constexpr auto view() const { return tensor.view(); }
  };
  constexpr target open(context<device>& ctx, const extents_of<typename Tensor::shape>& extents) {
    if (rows_ != nullptr) rows_->add_all();
    const bool accumulate = detail::open_gradient(ctx, Tensor::bytes, value_.storage_, storage_.storage_);
    value_.extents_ = extents;
    return {value_, accumulate};
  }

  /// Where a kernel adds to rows, which it then adds to rows() unless that is null; without track() like open().
  constexpr target open_rows(context<device>& ctx, const extents_of<typename Tensor::shape>& extents) {
    if (rows_ == nullptr) return open(ctx, extents);
    value_ = storage_;
    return {value_, true};
  }

 private:
  constexpr void zero_rows() {
    using T = typename Tensor::value_type;
    if (rows_->all()) {
      device_access<device>::zero(storage_.owner(), storage_.data(), Tensor::bytes);
    } else if constexpr (device::computes) {
      const index_t width = rows_->width();
      for (const index_t row : rows_->list())
        device_access<device>::zero(storage_.owner(), storage_.data() + row * width, width * sizeof(T));
    }
    rows_->clear();
  }

  Tensor value_;
  Tensor storage_;                // memory of the gradient; empty: the first contribution has it
  touched_rows* rows_ = nullptr;  // null: they are not tracked
};

/// A pointer to a slot, null if the gradient is not needed. Operations write the gradients of their operands to it.
template <class Tensor>
class gradient_sink {
 public:
  using tensor_type = Tensor;
  constexpr gradient_sink() = default;
  constexpr explicit gradient_sink(gradient_slot<Tensor>* slot, const extents_of<typename Tensor::shape>& extents = {})
      : slot_(slot), extents_(extents) {}
  constexpr explicit operator bool() const { return slot_ != nullptr; }
  /// The extents of the operand, also if its gradient is not needed.
  constexpr const extents_of<typename Tensor::shape>& extents() const { return extents_; }
  /// True if nothing has been contributed.
  constexpr bool is_empty() const { return !slot_->value(); }
  /// The accumulated gradient; empty if there is none.
  constexpr const Tensor& so_far() const { return slot_->value(); }
  GRADUS_OF_BUILD constexpr void give(Tensor gradient) const { slot_->give(std::move(gradient)); }
  /// Adds a gradient of another element type, converted.
  template <class T>
    requires(!std::is_same_v<T, typename Tensor::value_type>)
  GRADUS_OF_BUILD constexpr void give(
      const tensor<T, typename Tensor::shape, typename Tensor::device>& gradient) const {
    auto& ctx = gradient.owner();
    const auto to = open(ctx);
    kernel<op::convert, typename Tensor::device>::forward(ctx, to.tensor.data(), gradient.data(),
                                                          gradient.extents().size, to.accumulate);
  }
  constexpr auto open(context<typename Tensor::device>& ctx) const { return slot_->open(ctx, extents_); }
  constexpr auto open_rows(context<typename Tensor::device>& ctx) const { return slot_->open_rows(ctx, extents_); }
  constexpr touched_rows* rows() const { return slot_->rows(); }
  /// Calls write(target) for a kernel that writes T: to the slot, or to a temporary that is then converted.
  template <class T, class Write>
  GRADUS_OF_BUILD constexpr void write_as(context<typename Tensor::device>& ctx, const Write& write) const {
    if constexpr (std::is_same_v<T, typename Tensor::value_type>) {
      write(open(ctx));
    } else {
      gradus::tensor<T, typename Tensor::shape, typename Tensor::device> temporary(ctx, extents_, category::temporary);
      write(typename gradient_slot<decltype(temporary)>::target{temporary, false});
      give(temporary);
    }
  }

 private:
  gradient_slot<Tensor>* slot_ = nullptr;
  [[no_unique_address]] extents_of<typename Tensor::shape> extents_{};
};

}  // namespace gradus
