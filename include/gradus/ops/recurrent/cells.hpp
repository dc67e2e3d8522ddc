#pragma once
// The cells of recurrent layers: what one step computes for one hidden unit, and its derivatives.

#include <string_view>

#include "../../core/config.hpp"
#include "../../core/extent.hpp"
#include "../../core/math.hpp"

namespace gradus {

/// Long short-term memory (Hochreiter and Schmidhuber 1997; the forget gate: Gers, Schmidhuber and Cummins 2000). Of
/// a = gates_t + h_{t-1} w, in PyTorch's order,
///
///   i = sigmoid(a_i), f = sigmoid(a_f), g = tanh(a_g), o = sigmoid(a_o), c_t = f c_{t-1} + i g, h_t = o tanh(c_t).
struct lstm_cell {
  static constexpr std::string_view name = "lstm";
  static constexpr index_t gates = 4;
  static constexpr bool has_bias = false;           ///< the product with h has none: the input's suffices
  static constexpr bool carries_memory = true;      ///< the next step reads the memory, which is c
  static constexpr bool shares_gradient = true;     ///< the product with h has the gradient of `gates`
  static constexpr index_t elementwise_flops = 40;  ///< of one unit's step

  /// Turns the input's part of the gates into activated gates, and c_{t-1} into c_t; returns h_t.
  template <class N>
  GRADUS_HD GRADUS_INLINE static N forward(N (&gate)[gates], const N (&of_h)[gates], const N&, N& c) {
    using math::sigmoid, math::tanh;
    gate[0] = sigmoid(gate[0] + of_h[0]);
    gate[1] = sigmoid(gate[1] + of_h[1]);
    gate[2] = tanh(gate[2] + of_h[2]);
    gate[3] = sigmoid(gate[3] + of_h[3]);
    c = gate[1] * c + gate[0] * gate[2];
    return gate[3] * tanh(c);
  }
  /// Turns activated gates into the gradients of their sums, and dc_t into dc_{t-1}; returns the part of dh_{t-1} that
  /// does not come from the product with h. `of_h` are the gradients of the product with h.
  template <class N>
  GRADUS_HD GRADUS_INLINE static N backward(N (&gate)[gates], N (&of_h)[gates], const N& dh, const N&, const N& c,
                                            const N& c_before, N& dc) {
    using math::tanh;
    const N i = gate[0], f = gate[1], g = gate[2], o = gate[3], squashed = tanh(c);
    dc = dc + dh * o * (1 - squashed * squashed);
    of_h[0] = gate[0] = dc * g * i * (1 - i);
    of_h[1] = gate[1] = dc * c_before * f * (1 - f);
    of_h[2] = gate[2] = dc * i * (1 - g * g);
    of_h[3] = gate[3] = dh * squashed * o * (1 - o);
    dc = dc * f;
    return N(0);
  }
};

/// Gated recurrent unit (Cho et al. 2014), with the reset gate after the product, as in PyTorch and cuDNN. Of
/// b = h_{t-1} w + bias, in PyTorch's order,
///
///   r = sigmoid(gates_r + b_r), z = sigmoid(gates_z + b_z), n = tanh(gates_n + r b_n), h_t = (1 - z) n + z h_{t-1}.
struct gru_cell {
  static constexpr std::string_view name = "gru";
  static constexpr index_t gates = 3;
  static constexpr bool has_bias = true;         ///< b_n has a bias of its own, inside the reset gate
  static constexpr bool carries_memory = false;  ///< backward reads the memory, which is b_n
  static constexpr bool shares_gradient = false;
  static constexpr index_t elementwise_flops = 30;

  template <class N>
  GRADUS_HD GRADUS_INLINE static N forward(N (&gate)[gates], const N (&of_h)[gates], const N& h, N& memory) {
    using math::sigmoid, math::tanh;
    memory = of_h[2];
    gate[0] = sigmoid(gate[0] + of_h[0]);
    gate[1] = sigmoid(gate[1] + of_h[1]);
    gate[2] = tanh(gate[2] + gate[0] * memory);
    return gate[2] + gate[1] * (h - gate[2]);
  }
  template <class N>
  GRADUS_HD GRADUS_INLINE static N backward(N (&gate)[gates], N (&of_h)[gates], const N& dh, const N& h_before,
                                            const N& memory, const N&, N&) {
    const N r = gate[0], z = gate[1], n = gate[2];
    gate[2] = dh * (1 - z) * (1 - n * n);
    of_h[2] = gate[2] * r;
    of_h[0] = gate[0] = gate[2] * memory * r * (1 - r);
    of_h[1] = gate[1] = dh * (h_before - n) * z * (1 - z);
    return dh * z;
  }
};

}  // namespace gradus
