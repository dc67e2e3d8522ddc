#pragma once
// Arrays in host memory with extents known at run time, and tensors of them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/shape_algebra.hpp"
#include "../memory/context.hpp"
#include "../tensor/creation.hpp"
#include "../tensor/tensor.hpp"

namespace gradus {

/// Values in host memory, row-major, with extents known at run time: what files and batches hold.
template <class T>
struct host_array {
  static_assert(is_element<T>, "host_array<T>: T must be one of f64 f32 bf16 f16 i64 i32 u16 u8 bool");
  /// How a value is stored: bool as a byte, 0 or 1, because std::vector<bool> has no addresses.
  using stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

  std::vector<index_t> extents;
  std::vector<stored> values;
};

namespace detail {

/// An element type and extents as text: `f32 [2, 3]`; those `in_type` may be bounds.
std::string array_text(std::string_view dtype, std::span<const index_t> extents, bool in_type = false);
/// Throws gradus::error, `NAME: holds f64 [3] where f32 [2, 3] is needed`, unless types and extents are
/// equal; an extent that is needed may be a bound, upto<N>.
void check_array(const std::string& name, std::string_view dtype, std::span<const index_t> extents,
                 std::string_view needed_dtype, std::span<const index_t> needed);
/// Throws gradus::error unless `values` is the product of the extents.
void check_array_values(const std::string& name, std::span<const index_t> extents, std::size_t values);

template <class Shape, class T, class D>
tensor<T, Shape, D> tensor_from_array(context<D>& ctx, const std::string& name, const host_array<T>& array,
                                      category what) {
  check_array(name, dtype_name<T>(), array.extents, dtype_name<T>(), Shape::in_type);
  check_array_values(name, array.extents, array.values.size());
  const auto extents = extents_from<Shape>([&] {
    auto all = Shape::extents;
    std::ranges::copy(array.extents, all.begin());
    return all;
  });
  return from_host<T, Shape>(ctx, reinterpret_cast<const T*>(array.values.data()), extents, what);
}

}  // namespace detail

/// A tensor on ctx's device with a copy of the array. Throws gradus::error unless the array has the extents of Shape,
/// within the bounds of bounded axes.
template <class Shape, class T, class D>
tensor<T, Shape, D> from_array(context<D>& ctx, const host_array<T>& array, category what = category::activation) {
  return detail::tensor_from_array<Shape>(ctx, "from_array<Shape>(ctx, array): the array", array, what);
}

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "host_array.ipp"
#endif
