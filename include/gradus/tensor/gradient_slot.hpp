#pragma once
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "tensor.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {
/// `to += from`, the one kernel that gradients themselves need.
struct accumulate {};
/// The kernel behind every change of element type: forward(ctx, to, from, accumulate) rounds each element of `from`
/// once and writes it to `to`, or adds it.
struct convert {};
}  // namespace op::inline GRADUS_BUILD

/// Where the gradient of one value accumulates: the first contribution is assigned, later ones are added.
template <class Tensor>
class gradient_slot {
 public:
  using tensor_type = Tensor;
  using device = typename Tensor::device;

  constexpr const Tensor& value() const { return value_; }
  /// The gradient, marked as one, so that no recording takes it for a constant unasked. Others may hold the tensor that
  /// was given, such as a constant that a custom_op returned: it keeps the mark that it has.
  constexpr const Tensor& marked() {
    if (value_ && value_.storage().origin() != origin::gradient) {
      if (!value_.storage().sole()) value_ = Tensor(value_.storage().part(0, Tensor::bytes));
      value_.storage().mark(origin::gradient);
    }
    return value_;
  }
  constexpr Tensor take() { return std::exchange(value_, Tensor{}); }
  constexpr void clear() { value_ = Tensor{}; }

  /// Makes the gradient accumulate in `storage` from now on, which may be a part of a larger buffer: the first
  /// contribution is written there, and clear() keeps it for the next one. An empty tensor ends that. Whoever else
  /// holds these bytes sees each change. Throws error while there is a gradient.
  constexpr void place(Tensor storage) {
    if (value_) fail_placed();
    storage_ = std::move(storage);
  }
  /// True when the gradient accumulates in storage from place().
  constexpr bool is_placed() const { return static_cast<bool>(storage_); }

  /// Adds a gradient that already exists as a tensor; the first one is kept without a copy.
  GRADUS_OF_BUILD constexpr void give(Tensor gradient) {
    if (!value_) {
      if (storage_)
        device_access<device>::copy(storage_.owner(), storage_.data(), std::as_const(gradient).data(), Tensor::bytes);
      // No conditional expression: g++ 12 ends its temporaries twice in a constant expression.
      if (storage_) value_ = storage_;
      else value_ = std::move(gradient);
      return;
    }
    if (!storage_ && !value_.unique() && gradient.unique()) std::swap(value_, gradient);
    make_unique();
    kernel<op::accumulate, device>::forward(value_.owner(), value_.view(), std::as_const(gradient).view());
  }

  /// Where a kernel writes its contribution: it must assign when `accumulate` is false and add when it is true.
  struct target {
    Tensor& tensor;
    bool accumulate;
    constexpr auto view() const { return tensor.view(); }
  };
  constexpr target open(context<device>& ctx) {
    if (!value_) {
      if (storage_) value_ = storage_;
      else value_ = Tensor(ctx, category::gradient);
      return {value_, false};
    }
    make_unique();
    return {value_, true};
  }

 private:
  constexpr void make_unique() {
    if (storage_ || value_.unique()) return;
    Tensor copy(value_.owner(), category::gradient);
    device_access<device>::copy(copy.owner(), copy.data(), std::as_const(value_).data(), Tensor::bytes);
    value_ = std::move(copy);
  }

  [[noreturn]] static void fail_placed() {
    throw error("slot.place(storage): there is a gradient already; clear it first");
  }

  Tensor value_;
  Tensor storage_;  // where it accumulates; empty: wherever the first contribution lies
};

/// A slot that may be absent: nobody wants the gradient of a constant. What an operation's gradient rule writes to.
template <class Tensor>
class gradient_sink {
 public:
  using tensor_type = Tensor;
  constexpr gradient_sink() = default;
  constexpr explicit gradient_sink(gradient_slot<Tensor>* slot) : slot_(slot) {}
  constexpr explicit operator bool() const { return slot_ != nullptr; }
  /// True when nothing has been contributed yet.
  constexpr bool is_empty() const { return !slot_->value(); }
  /// f(gradient) of what has accumulated so far, if anything has.
  template <class F>
  constexpr void look(const F& f) const {
    if (slot_ != nullptr && slot_->value()) f(slot_->value());
  }
  GRADUS_OF_BUILD constexpr void give(Tensor gradient) const { slot_->give(std::move(gradient)); }
  /// A gradient of another element type is converted.
  template <class T>
    requires(!std::is_same_v<T, typename Tensor::value_type>)
  GRADUS_OF_BUILD constexpr void give(
      const tensor<T, typename Tensor::shape, typename Tensor::device>& gradient) const {
    auto& ctx = gradient.owner();
    auto to = open(ctx);
    kernel<op::convert, typename Tensor::device>::forward(ctx, to.view(), gradient.view(), to.accumulate);
  }
  constexpr auto open(context<typename Tensor::device>& ctx) const { return slot_->open(ctx); }
  /// Calls write(target) for a kernel that writes elements of type T: to the slot itself, or, where that is of another
  /// type, to a temporary that is then converted.
  template <class T, class Write>
  GRADUS_OF_BUILD constexpr void write_as(context<typename Tensor::device>& ctx, const Write& write) const {
    if constexpr (std::is_same_v<T, typename Tensor::value_type>) {
      write(open(ctx));
    } else {
      gradus::tensor<T, typename Tensor::shape, typename Tensor::device> temporary(ctx, category::temporary);
      write(typename gradient_slot<decltype(temporary)>::target{temporary, false});
      give(temporary);
    }
  }

 private:
  gradient_slot<Tensor>* slot_ = nullptr;
};

}  // namespace gradus
