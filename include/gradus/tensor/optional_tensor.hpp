#pragma once
// A tensor as an option of an operation: maybe none, and of a shape that is checked at run time.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <type_traits>

#include "tensor.hpp"

namespace gradus {

namespace detail {
template <class WantedType, class WantedDevice, class Type, class Device>
inline constexpr bool option_is_of = std::is_same_v<WantedType, Type> && std::is_same_v<WantedDevice, Device>;
}  // namespace detail

/// A tensor of any shape as an option: a handle to its elements, and its extents, which are checked at run time.
template <class T, class D>
class optional_tensor {
 public:
  constexpr optional_tensor() = default;
  /// Throws error if the tensor is empty: no tensor is `{}`.
  template <class S>
  constexpr optional_tensor(const tensor<T, S, D>& x) : storage_(x.storage()), rank_(S::rank) {
    x.check_present();
    for (index_t a = 0; a < std::min(rank_, most); ++a) extents_[a] = x.extents().extents[a];
  }
  template <class U, class S, class E>
    requires(!detail::option_is_of<T, D, U, E>)
  constexpr optional_tensor(const tensor<U, S, E>&) {
    static_assert(detail::option_is_of<T, D, U, E>,
                  "options of attention, lstm and gru: documents and lengths must have elements of std::int32_t and "
                  "masks of bool, on "
                  "the operands' device; write cast<std::int32_t>(lengths) or mask != 0");
  }
  constexpr explicit operator bool() const { return static_cast<bool>(storage_); }
  /// The elements, or null.
  constexpr const T* data() const {
    if constexpr (!D::computes) return nullptr;
    else return storage_ ? static_cast<const T*>(storage_.data()) : nullptr;
  }
  template <std::size_t N>
  constexpr bool has_extents(const std::array<index_t, N>& wanted) const {
    return rank_ == N && std::equal(wanted.begin(), wanted.end(), extents_.begin());
  }
  std::string extents_text() const {
    std::string text = "[";
    for (index_t a = 0; a < rank_; ++a)
      text += (a > 0 ? ", " : "") + (a < most ? std::to_string(extents_[a]) : std::string("..."));
    return text + "]";
  }

 private:
  static constexpr index_t most = 4;
  buffer<D> storage_;
  std::array<index_t, most> extents_{};
  index_t rank_ = 0;
};

}  // namespace gradus
