#pragma once
// The options of lstm and gru, and what the kernels of one step read and write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "../../core/config.hpp"
#include "../../core/dtype.hpp"
#include "../../core/error.hpp"
#include "../../core/extent.hpp"
#include "../../tensor/optional_tensor.hpp"

namespace gradus {

/// Options of lstm and gru.
template <class D = cpu>
struct recurrent_options {
  bool reversed = false;  ///< from the last step to the first
  /// [B], each 0 to T: row b has `lengths[b]` steps. In the others its state stays, and y is that state.
  optional_tensor<std::int32_t, D> lengths = {};
};

namespace detail {

[[noreturn]] GRADUS_NOINLINE inline void fail_lengths(std::string_view op, const std::string& what) {
  throw error(std::string(op) + "(gates, w, ..., options): " + what);
}
/// Throws error if the lengths do not fit. Their values are checked where the host can read them.
template <class D>
constexpr void check_lengths(std::string_view op, const optional_tensor<std::int32_t, D>& lengths, index_t batch,
                             index_t time) {
  if (lengths && !lengths.has_extents(std::array{batch}))
    fail_lengths(op, "lengths is " + lengths.extents_text() + "; it must be [B] = [" + std::to_string(batch) + "]");
  if constexpr (D::host_addressable)
    if (const std::int32_t* const of = lengths.data())
      for (index_t b = 0; b < batch; ++b)
        if (of[b] < 0 || static_cast<index_t>(of[b]) > time)
          fail_lengths(op, "lengths[" + std::to_string(b) + "] is " + std::to_string(of[b]) +
                               "; it must be 0 to T = " + std::to_string(time));
}

}  // namespace detail

/// One step of all rows.
struct recurrent_step {
  index_t batch, width;  ///< rows, and hidden units of a row
  index_t time, before;  ///< this step, and the one before it in the order of the steps
  bool first;            ///< none is before it
  const std::int32_t* lengths;
  /// Whether row b has this step.
  GRADUS_HD constexpr bool has(index_t b) const {
    return lengths == nullptr || static_cast<std::ptrdiff_t>(time) < static_cast<std::ptrdiff_t>(lengths[b]);
  }
};

/// An array [B, T, columns] by its rows' addresses; maybe null.
template <class T>
struct sequence {
  T* data = nullptr;
  index_t step = 0, row = 0;  ///< elements between steps, and between rows of the batch
  GRADUS_HD constexpr T* at(index_t b, index_t t) const {
    return data == nullptr ? nullptr : data + b * row + t * step;
  }
};

/// The arrays of forward, for gates of type T and a result of type TY: G gates, H hidden units. A step reads the state
/// in h and memory, and replaces it.
template <class T, class TY>
struct recurrent_forward {
  using C = compute_type<T>;
  sequence<const T> gates;  ///< the input's part
  const C* of_h;            ///< [B, G*H]: the product with h, of this step
  T* h;                     ///< [B, H]
  C* memory;                ///< [B, H], if the cell carries it
  sequence<TY> y;
  sequence<T> activated;  ///< what backward reads: the activated gates,
  sequence<C> memories;   ///< and the memory after each step; null if none follows
};
/// The arrays of backward. A step reads the gradients of the state after it in dh and dmemory, and replaces them by the
/// gradients of the state before it; dh lacks the part from the product with h.
template <class T, class TY>
struct recurrent_backward {
  using C = compute_type<T>;
  sequence<const TY> dy, y;
  sequence<const C> memories;
  const TY* first_h;      ///< [B, H]: the state before the first step
  const C* first_memory;  ///< [B, H], if the cell carries it
  sequence<T> gates;      ///< the activated gates, then the gradient of `gates`
  T* of_h;                ///< [B, G*H]: the gradient of the product with h, of this step
  sequence<T> all_of_h;   ///< of_h of all steps, for the gradient of w; null if `gates` has it
  sequence<T> h_before;   ///< h before each step, for the gradient of w; null if that is not needed
  C *dh, *dmemory;        ///< [B, H]
};

}  // namespace gradus
