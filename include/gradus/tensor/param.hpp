#pragma once
#include <utility>

#include "../precision/policy.hpp"
#include "gradient_slot.hpp"
#include "tensor.hpp"

namespace gradus {

/// A trainable tensor: a value and a place where its gradient gathers. Parameters belong to no tape; a const model still
/// receives gradients, because they live behind a pointer.
/// @tparam X       gradus::on<device, precision>: where it lives and what it is stored in
/// @tparam Extents its shape
template <class X, index... Extents>
class param {
 public:
  using policy = X;
  using tensor_type = tensor<typename X::store, gradus::shape<Extents...>, typename X::device>;
  using value_type = typename tensor_type::value_type;
  using shape = typename tensor_type::shape;
  using device = typename X::device;

  constexpr param() : slot_(new gradient_slot<tensor_type>) {}
  constexpr param(param&& other) noexcept
      : value_(std::move(other.value_)), slot_(std::exchange(other.slot_, nullptr)) {}
  constexpr param& operator=(param&& other) noexcept {
    std::swap(value_, other.value_);
    std::swap(slot_, other.slot_);
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
  constexpr void clear_gradient() const { slot_->clear(); }

 private:
  tensor_type value_;
  gradient_slot<tensor_type>* slot_;
};

template <class X>
inline constexpr bool is_param = false;
template <class X, index... E>
inline constexpr bool is_param<param<X, E...>> = true;

}  // namespace gradus
