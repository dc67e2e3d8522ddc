#pragma once
// Creates tensors from values, and reads their elements back.

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "failures.hpp"
#include "tensor.hpp"

namespace gradus {

// Tensors of a bounded shape take their extents after the context or the values: a number, or several in braces.

/// A tensor with uninitialised elements.
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> empty(context<D>& ctx, category what = category::activation) {
  return tensor<T, Shape, D>(ctx, what);
}
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> empty(context<D>& ctx, const std::type_identity_t<extents_of<Shape>>& extents,
                                    category what = category::activation) {
  return tensor<T, Shape, D>(ctx, extents, what);
}

/// A tensor of zeros.
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> zeros(context<D>& ctx, const std::type_identity_t<extents_of<Shape>>& extents,
                                    category what = category::activation) {
  tensor<T, Shape, D> t(ctx, extents, what);
  device_access<D>::zero(ctx, t.data(), extents.size * sizeof(T));
  return t;
}
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> zeros(context<D>& ctx, category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>, "zeros<T, Shape>(ctx): Shape is bounded; give the extents");
  return zeros<T, Shape>(ctx, {}, what);
}

/// A tensor on ctx's device with a copy of the `values` in host memory, row-major, one for each element.
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> from_host(context<D>& ctx, const T* values,
                                        const std::type_identity_t<extents_of<Shape>>& extents,
                                        category what = category::activation) {
  tensor<T, Shape, D> t(ctx, extents, what);
  device_access<D>::upload(ctx, t.data(), values, extents.size * sizeof(T));
  return t;
}
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> from_host(context<D>& ctx, const T* values, category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "from_host<T, Shape>(ctx, values): Shape is bounded; give the extents");
  return from_host<T, Shape>(ctx, values, {}, what);
}

/// A tensor over the Shape::size elements at `memory`, on ctx's device, row-major, without a copy. They must live until
/// the last tensor that shares them ends; then `end(argument)` is called, unless it is null: see buffer::borrow.
template <class T, class Shape, class D>
tensor<T, Shape, D> borrow(context<D>& ctx, T* memory, void (*end)(void*) = nullptr, void* argument = nullptr) {
  using X = tensor<T, Shape, D>;
  static_assert(detail::extents_are_in_the_type<Shape>, "borrow<T, Shape>(ctx, memory): Shape is bounded");
  return X(buffer<D>::borrow(ctx, memory, X::bytes, category::input, end, argument));
}

namespace detail {
template <class T, class D>
GRADUS_OF_BUILD GRADUS_NOINLINE constexpr void fill(context<D>& ctx, T* to, T value, index_t n) {
  if constexpr (D::host_addressable) {
    device_access<D>::for_ranges(ctx, n, index_t{1} << 15, [to, value](index_t first, index_t last) {
      for (index_t i = first; i < last; ++i) to[i] = value;
    });
  } else if constexpr (D::computes) {
    device_access<D>::fill(ctx, to, value, n);
  }
}
}  // namespace detail

/// A tensor whose elements are all `value`.
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> full(context<D>& ctx, T value,
                                                   const std::type_identity_t<extents_of<Shape>>& extents,
                                                   category what = category::activation) {
  tensor<T, Shape, D> t(ctx, extents, what);
  detail::fill(ctx, t.data(), value, extents.size);
  return t;
}
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> full(context<D>& ctx, T value, category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "full<T, Shape>(ctx, value): Shape is bounded; give the extents");
  return full<T, Shape>(ctx, value, {}, what);
}

/// A tensor of ones.
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> ones(context<D>& ctx, category what = category::activation) {
  return full<T, Shape>(ctx, T(1.0f), what);
}
template <class T, class Shape, class D>
GRADUS_OF_BUILD constexpr tensor<T, Shape, D> ones(context<D>& ctx,
                                                   const std::type_identity_t<extents_of<Shape>>& extents,
                                                   category what = category::activation) {
  return full<T, Shape>(ctx, T(1.0f), extents, what);
}

namespace detail {
template <index_t Values, index_t Elements>
inline constexpr bool one_value_for_each_element = Values == Elements;
}  // namespace detail

/// A tensor of Shape::size elements, row-major: `from_values<float, shape<2, 2>>(ctx, {1, 2, 3, 4})`.
template <class T, class Shape, index_t N, class D>
tensor<T, Shape, D> from_values(context<D>& ctx, const T (&values)[N], category what = category::activation) {
  static_assert(detail::one_value_for_each_element<N, Shape::size>,
                "from_values<T, Shape>(ctx, {...}): the number of values must equal the number of elements of Shape");
  return from_host<T, Shape>(ctx, values, what);
}

namespace detail {
template <class T, class Values>
inline constexpr bool values_are = std::is_same_v<std::remove_cvref_t<decltype(*std::declval<Values>().data())>, T>;
}  // namespace detail

/// A tensor of Shape, row-major, of a std::vector, std::array or std::span of T. Throws error unless it has one value
/// for each element.
template <class T, class Shape, class D, class Values>
  requires requires(const Values& v) { v.data() + v.size(); }
tensor<T, Shape, D> from_values(context<D>& ctx, const Values& values,
                                const std::type_identity_t<extents_of<Shape>>& extents,
                                category what = category::activation) {
  constexpr bool of_one_type = detail::values_are<T, const Values&>;
  static_assert(detail::values_are<T, const Values&>,
                "from_values<T, Shape>(ctx, values): the values must be of type T");
  if (values.size() != extents.size) detail::fail_number_of_values(values.size(), extents.size);
  if constexpr (of_one_type) return from_host<T, Shape>(ctx, values.data(), extents, what);
  else return tensor<T, Shape, D>();
}
template <class T, class Shape, class D, class Values>
  requires requires(const Values& v) { v.data() + v.size(); }
tensor<T, Shape, D> from_values(context<D>& ctx, const Values& values, category what = category::activation) {
  static_assert(detail::extents_are_in_the_type<Shape>,
                "from_values<T, Shape>(ctx, values): Shape is bounded; give the extents");
  return from_values<T, Shape>(ctx, values, {}, what);
}
template <class T, class Shape, index_t N, class D>
tensor<T, Shape, D> from_values(context<D>& ctx, const T (&values)[N],
                                const std::type_identity_t<extents_of<Shape>>& extents,
                                category what = category::activation) {
  if (extents.size != N) detail::fail_number_of_values(N, extents.size);
  return from_host<T, Shape>(ctx, values, extents, what);
}

/// The vector 0, 1, 2, …, N-1.
template <class T, index_t N, class D>
GRADUS_OF_BUILD tensor<T, shape<N>, D> arange(context<D>& ctx) {
  std::vector<T> host(N);
  for (index_t i = 0; i < N; ++i) host[i] = static_cast<T>(i);
  return from_host<T, shape<N>>(ctx, host.data());
}

/// The elements as a std::vector; waits for the device.
template <class T, class Shape, class D>
std::vector<T> to_host(const tensor<T, Shape, D>& t) {
  t.check_present();
  if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> does not store an array of bool
    const auto host = std::make_unique<bool[]>(t.extents().size);
    device_access<D>::download(t.owner(), host.get(), t.data(), t.extents().size);
    return std::vector<bool>(host.get(), host.get() + t.extents().size);
  } else {
    std::vector<T> host(t.extents().size);
    device_access<D>::download(t.owner(), host.data(), t.data(), host.size() * sizeof(T));
    return host;
  }
}

namespace detail {
template <class ShapeOfX>
inline constexpr bool is_one_element = ShapeOfX::size == 1;
}  // namespace detail

/// The value of a one-element tensor; waits for the device.
template <class T, class Shape, class D>
constexpr T item(const tensor<T, Shape, D>& t) {
  static_assert(detail::is_one_element<Shape>, "item(x): x must have exactly one element");
  t.check_present();
  T value{};
  device_access<D>::download(t.owner(), &value, t.data(), sizeof(T));
  return value;
}

/// A copy that shares no elements.
template <class T, class Shape, class D>
constexpr tensor<T, Shape, D> clone(const tensor<T, Shape, D>& t, category what = category::activation) {
  tensor<T, Shape, D> copy(t.owner(), t.extents(), what);
  device_access<D>::copy(t.owner(), copy.data(), t.data(), t.extents().size * sizeof(T));
  copy.storage().mark(t.storage().origin());
  return copy;
}

}  // namespace gradus
