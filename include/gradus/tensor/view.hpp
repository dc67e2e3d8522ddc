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
  static constexpr index_t size = Shape::size;  ///< number of elements; of a bounded shape, the largest one

  constexpr explicit view(T* data)
    requires(!Shape::bounded)
      : data_(data) {}
  constexpr view(T* data, const extents_of<Shape>& extents) : data_(data), extents_(extents) {}
  constexpr T* data() const { return data_; }
  /// The shape, as a value; of a bounded shape, with the extents of the tensor viewed.
  constexpr const extents_of<Shape>& extents() const { return extents_; }
  constexpr T* begin() const { return data_; }
  constexpr T* end() const { return data_ + extents_.size; }
  constexpr T& operator[](index_t i) const { return data_[i]; }
  /// The element at the given indices, outermost first, unchecked.
  template <class... Indices>
  constexpr T& operator()(Indices... i) const {
    static_assert(sizeof...(Indices) == Shape::rank, "view(i...): one index for each axis");
    index_t offset = 0;
    index_t axis = 0;
    ((offset = offset * extents_.extents[axis++] + static_cast<index_t>(i)), ...);
    return data_[offset];
  }

 private:
  T* data_;
  [[no_unique_address]] extents_of<Shape> extents_;
};

}  // namespace gradus
