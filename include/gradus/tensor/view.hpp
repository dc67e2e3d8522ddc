#pragma once
// Views: the operands of kernels.

#include <cstddef>

#include "../core/device.hpp"
#include "../core/shape.hpp"

namespace gradus {

/// Non-owning access to the elements of a row-major array. T may be const.
template <class T, class Shape, class D = cpu>
class view {
 public:
  using value_type = T;
  using shape = Shape;
  using device = D;
  static constexpr index_t size = Shape::size;

  constexpr explicit view(T* data) : data_(data) {}
  constexpr T* data() const { return data_; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + size; }
  constexpr T& operator[](index_t i) const { return data_[i]; }
  /// The element at the given indices, outermost first, unchecked.
  template <class... I>
  constexpr T& operator()(I... i) const {
    static_assert(sizeof...(I) == Shape::rank, "view(i...): one index for each axis");
    index_t offset = 0;
    index_t axis = 0;
    ((offset = offset * Shape::extents[axis++] + static_cast<index_t>(i)), ...);
    return data_[offset];
  }

 private:
  T* data_;
};

}  // namespace gradus
