#pragma once
#include <utility>

#include "../precision/policy.hpp"
#include "gradient_slot.hpp"
#include "tensor.hpp"

namespace gradus {

/// How a parameter starts: drawn by the initialiser, or filled with a constant.
enum class start { drawn, zeros, ones };

/// What optimizers see of a parameter: its elements and those of its gradient, whatever its shape.
template <class T, class D>
class param_base {
 public:
  using value_type = T;
  using device = D;
  virtual constexpr index size() const = 0;
  virtual constexpr index rank() const = 0;
  /// Elements of the value, on device D; null on `meta` and before initialisation.
  virtual constexpr T* data() = 0;
  /// Elements of the gradient; null on `meta` and where has_gradient() is false.
  virtual constexpr const T* gradient_data() const = 0;
  virtual constexpr bool has_gradient() const = 0;
  /// Forgets the gradient, and gives its memory back.
  virtual constexpr void clear_gradient() const = 0;

 protected:
  constexpr param_base() = default;
  constexpr ~param_base() = default;  // never deleted through the base
  constexpr param_base(const param_base&) = default;
  constexpr param_base& operator=(const param_base&) = default;
};

/// A trainable tensor: a value and a place where its gradient gathers. Parameters belong to no tape; a const model still
/// receives gradients, because they live behind a pointer.
/// @tparam X       gradus::on<device, precision>: where it lives and what it is stored in
/// @tparam Extents its shape
template <class X, index... Extents>
class param final : public param_base<typename X::store, typename X::device> {
 public:
  using policy = X;
  using tensor_type = tensor<typename X::store, gradus::shape<Extents...>, typename X::device>;
  using value_type = typename tensor_type::value_type;
  using shape = typename tensor_type::shape;
  using device = typename X::device;

  /// Matrices are drawn, vectors (biases) start at zero.
  constexpr param() : param(sizeof...(Extents) >= 2 ? start::drawn : start::zeros) {}
  /// A parameter that starts otherwise; what is drawn is multiplied by `scale`.
  constexpr explicit param(start from, double scale = 1)
      : slot_(new gradient_slot<tensor_type>), start_(from), scale_(scale) {}
  constexpr param(param&& other) noexcept
      : value_(std::move(other.value_)),
        slot_(std::exchange(other.slot_, nullptr)),
        start_(other.start_),
        scale_(other.scale_) {}
  constexpr param& operator=(param&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(slot_, other.slot_);
    std::swap(start_, other.start_);
    std::swap(scale_, other.scale_);
    return *this;
  }
  param(const param&) = delete;
  param& operator=(const param&) = delete;
  constexpr ~param() { delete slot_; }

  /// The value; empty until the model is initialised.
  constexpr const tensor_type& value() const { return value_; }
  constexpr tensor_type& value() { return value_; }
  constexpr void set(tensor_type value) { value_ = std::move(value); }
  /// The gradient gathered so far; empty when there is none.
  constexpr const tensor_type& gradient() const { return slot_->value(); }
  constexpr gradient_slot<tensor_type>& slot() const { return *slot_; }
  /// Forgets the gradient, and gives its memory back.
  constexpr void clear_gradient() const override { slot_->clear(); }

  constexpr start starts() const { return start_; }
  constexpr double start_scale() const { return scale_; }

  constexpr index size() const override { return shape::size; }
  constexpr index rank() const override { return shape::rank; }
  constexpr value_type* data() override { return value_ ? value_.data() : nullptr; }
  constexpr const value_type* gradient_data() const override {
    return slot_->value() ? slot_->value().data() : nullptr;
  }
  constexpr bool has_gradient() const override { return static_cast<bool>(slot_->value()); }

 private:
  tensor_type value_;
  gradient_slot<tensor_type>* slot_;
  start start_;
  double scale_;
};

template <class X>
inline constexpr bool is_param = false;
template <class X, index... E>
inline constexpr bool is_param<param<X, E...>> = true;

}  // namespace gradus
