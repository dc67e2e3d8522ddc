#pragma once
// The tensor type.

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "../core/dtype.hpp"
#include "../core/error.hpp"
#include "../core/shape.hpp"
#include "../memory/buffer.hpp"
#include "failures.hpp"
#include "view.hpp"

namespace gradus {

template <class Tensor>
class gradient_slot;

namespace detail {
// Named in compiler messages.
template <class Shape>
inline constexpr bool extents_are_in_the_type = !Shape::bounded;

template <class Shape>
inline constexpr std::size_t span_extent = Shape::bounded ? std::dynamic_extent : Shape::size;
}  // namespace detail

/// A dense row-major array of T with shape and device in its type. A tensor is a handle: copies share the elements, and
/// the last copy frees the memory. A default-constructed or moved-from tensor is empty (`operator bool` is false; of
/// `bool` elements, so that a comparison is no condition, `storage()` tells).
///
/// If the shape is bounded, each tensor has extents of its own; it has memory for the largest ones, and its elements
/// are dense at the beginning. Sizes in the type are the largest ones; `extents()` has the tensor's own.
///
/// Creation and `data()` write elements; an operation never overwrites an operand that has other owners.
template <class T, class Shape, class D = cpu>
class tensor {
 public:
  static_assert(is_shape<Shape>, "tensor<T, Shape>: Shape must be gradus::shape<...>");
  static_assert(is_element<T>, "tensor<T, Shape>: T must be one of f64 f32 bf16 f16 i64 i32 u16 u8 bool");
  using value_type = T;
  using shape = std::conditional_t<is_shape<Shape>, Shape, gradus::shape<>>;  // one message is enough
  using device = D;
  static constexpr index_t size = shape::size;
  static constexpr index_t rank = shape::rank;
  static constexpr std::size_t bytes = shape::size * sizeof(T);

  constexpr tensor() = default;
  /// Uninitialised elements in memory of `ctx`. Throws out_of_memory.
  constexpr explicit tensor(context<D>& ctx, category what = category::activation) : storage_(ctx, bytes, what) {
    static_assert(detail::extents_are_in_the_type<shape>,
                  "tensor<T, shape<upto<N>, ...>>(ctx): give the extents, tensor(ctx, {rows})");
  }
  constexpr tensor(context<D>& ctx, const extents_of<shape>& extents, category what = category::activation)
      : storage_(ctx, bytes, what), extents_(extents) {}
  /// Elements in `storage`, which is shared: another tensor's, or a part of a buffer. Throws error if its size differs.
  constexpr explicit tensor(gradus::buffer<D> storage)
    requires(!shape::bounded)
      : tensor(std::move(storage), {}) {}
  constexpr tensor(gradus::buffer<D> storage, const extents_of<shape>& extents)
      : storage_(std::move(storage)), extents_(extents) {
    if (storage_ && storage_.bytes() != bytes) detail::fail_storage_size(storage_.bytes(), bytes);
  }

  constexpr explicit operator bool() const {
    static_assert(!std::is_same_v<T, bool>,
                  "if (a > b), !(a == b): a comparison of tensors has an answer for each element; of one element, "
                  "item(a > b) is it");
    return static_cast<bool>(storage_);
  }
  /// The context of the memory. Throws error if the tensor is empty.
  constexpr context<D>& owner() const {
    check_present();
    return storage_.owner();
  }
  /// Throws error if the tensor is empty.
  constexpr void check_present() const {
    if (!storage_) detail::fail_empty_tensor();
  }
  constexpr const gradus::buffer<D>& storage() const& { return storage_; }
  constexpr gradus::buffer<D> storage() && { return std::move(storage_); }
  /// The shape, as a value; of a bounded shape, with the tensor's own extents: `x.extents().size` elements.
  constexpr const extents_of<shape>& extents() const { return extents_; }
  /// The tensor's own extent of `axis`, counted from the front when >= 0 and from the back when negative.
  constexpr index_t extent(std::ptrdiff_t axis) const { return extents_.extent(axis); }
  /// True if no other tensor shares the elements.
  constexpr bool unique() const { return storage_.unique(); }

  /// Address of the first element, on the tensor's device. Does not compile for a temporary, whose memory ends.
  constexpr T* data() & {
    if constexpr (D::computes) return static_cast<T*>(storage_.data());
    storage_.use();
    return nullptr;
  }
  constexpr const T* data() const& {
    if constexpr (D::computes) return static_cast<const T*>(storage_.data());
    storage_.use();
    return nullptr;
  }
  template <class X = T>
  constexpr const X* data() const&& {
    static_assert(!std::is_same_v<X, T>, "x.data(): x is a temporary tensor, whose memory ends here; name it first");
    return nullptr;
  }
  constexpr gradus::view<T, Shape, D> view() & { return gradus::view<T, Shape, D>(data(), extents_); }
  constexpr gradus::view<const T, Shape, D> view() const& { return gradus::view<const T, Shape, D>(data(), extents_); }
  template <class X = T>
  constexpr gradus::view<const X, Shape, D> view() const&& {
    static_assert(!std::is_same_v<X, T>, "x.view(): x is a temporary tensor, whose memory ends here; name it first");
    return gradus::view<const X, Shape, D>(nullptr, extents_);
  }

  /// The elements in row-major order (CPU only).
  // clang-format off: it splits `& requires`
  std::span<T, detail::span_extent<shape>> values() &
        requires D::host_addressable
  {
    return std::span<T, detail::span_extent<shape>>(data(), extents_.size);
  }
  std::span<const T, detail::span_extent<shape>> values() const&
    requires D::host_addressable
  {
    return std::span<const T, detail::span_extent<shape>>(data(), extents_.size);
  }
  // clang-format on
  template <class X = T>
  std::span<const X> values() const&&
    requires D::host_addressable
  {
    static_assert(
        !std::is_same_v<X, T>,
        "x.values(): x is a temporary tensor, whose memory ends here; name it first, or copy it by to_host(x)");
    return {};
  }
  /// The element at the given indices, unchecked (CPU only).
  // clang-format off
  template <class... At>
  T& operator()(At... i) & requires(D::host_addressable && sizeof...(At) == Shape::rank) { return view()(i...); }
  template <class... At>
  const T& operator()(At... i) const& requires(D::host_addressable && sizeof...(At) == Shape::rank) {
    return view()(i...);
  }
  // clang-format on
  template <class... At>
  T operator()(At... i) const&&
    requires(D::host_addressable && sizeof...(At) == Shape::rank)
  {
    return (*this)(i...);
  }

 private:
  template <class>
  friend class gradient_slot;

  gradus::buffer<D> storage_;
  [[no_unique_address]] extents_of<shape> extents_{};
};

template <class X>
inline constexpr bool is_tensor = false;
template <class T, class S, class D>
inline constexpr bool is_tensor<tensor<T, S, D>> = true;

/// The type of a tensor with X's element type and device and another shape.
template <class X, class Shape>
using with_shape = tensor<typename X::value_type, Shape, typename X::device>;

}  // namespace gradus
