#pragma once
#include <type_traits>
#include <utility>

#include "tensor.hpp"

namespace gradus {

namespace op {
/// `to += from`, the one kernel that gradients themselves need.
struct accumulate {};
}  // namespace op

/// Where the gradient of one value gathers: the first contribution is assigned, later ones are added.
template <class Tensor>
class gradient_slot {
 public:
  using tensor_type = Tensor;
  using device = typename Tensor::device;

  constexpr const Tensor& value() const { return value_; }
  constexpr Tensor take() { return std::exchange(value_, Tensor{}); }
  constexpr void clear() { value_ = Tensor{}; }

  /// Adds a gradient that already exists as a tensor; the first one is kept without a copy.
  constexpr void give(Tensor gradient) {
    if (!value_) {
      value_ = std::move(gradient);
      return;
    }
    if (!value_.unique() && gradient.unique()) std::swap(value_, gradient);
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
      value_ = Tensor(ctx, category::gradient);
      return {value_, false};
    }
    make_unique();
    return {value_, true};
  }

 private:
  constexpr void make_unique() {
    if (value_.unique()) return;
    Tensor copy(value_.owner(), category::gradient);
    device_access<device>::copy(copy.owner(), copy.data(), std::as_const(value_).data(), Tensor::bytes);
    value_ = std::move(copy);
  }

  Tensor value_;
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
  constexpr void give(Tensor gradient) const { slot_->give(std::move(gradient)); }
  constexpr auto open(context<typename Tensor::device>& ctx) const { return slot_->open(ctx); }

 private:
  gradient_slot<Tensor>* slot_ = nullptr;
};

}  // namespace gradus
