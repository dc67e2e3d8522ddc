#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: gru_length_of_b
// expect: gru\(gates, w, b\): columns of w must equal the length of b
// expect(g++): columns_of_w_equal_length_of_b<15(UL)?, 5(UL)?>
auto f(const tensor<2, 3, 15>& gates, const tensor<5, 15>& w, const tensor<5>& b) { return gr::gru(gates, w, b); }
// twin
auto f(const tensor<2, 3, 15>& gates, const tensor<5, 15>& w, const tensor<15>& b) { return gr::gru(gates, w, b); }

// case: gru_state_that_is_a_tensor
// expect: lstm\(x, state\), gru\(x, state\): the state is nn::lstm_state\{h, c\} or nn::gru_state\{h\}
auto f(const gr::nn::gru<gr::on<gr::cpu>, 4, 8>& layer, const tensor<2, 3, 4>& x, const tensor<1, 2, 8>& h) {
  return layer(x, h);
}
// twin
auto f(const gr::nn::gru<gr::on<gr::cpu>, 4, 8>& layer, const tensor<2, 3, 4>& x, const tensor<1, 2, 8>& h) {
  return layer(x, gr::nn::gru_state{h});
}

// case: lstm_columns_of_gates
// expect: lstm\(gates, w\), gru\(gates, w, b\): columns of gates must equal columns of w
// expect(g++): columns_of_gates_equal_columns_of_w<5(UL)?, 20(UL)?>
constexpr gr::index_t columns = 5;  // x itself, without the product with its weights
auto f(const tensor<2, 3, columns>& gates, const tensor<5, 20>& w) { return gr::lstm(gates, w); }
// twin
auto f(const tensor<2, 3, 20>& gates, const tensor<5, 20>& w) { return gr::lstm(gates, w); }

// case: lstm_columns_of_w
// expect: lstm\(gates, w\), gru\(gates, w, b\): w must be \[H, 4\*H\] for lstm, and \[H, 3\*H\] for gru
// expect(g++): columns_of_w_are_gates_times_rows<15(UL)?, 20(UL)?>
auto f(const tensor<2, 3, 15>& gates, const tensor<5, 15>& w) { return gr::lstm(gates, w); }
// twin
auto f(const tensor<2, 3, 20>& gates, const tensor<5, 20>& w) { return gr::lstm(gates, w); }

// case: lstm_rank_of_gates
// expect: lstm\(gates, w\), gru\(gates, w, b\): gates must have three axes, \[B, T, columns\], and w two
auto f(const tensor<3, 20>& gates, const tensor<5, 20>& w) { return gr::lstm(gates, w); }
// twin
auto f(const tensor<1, 3, 20>& gates, const tensor<5, 20>& w) { return gr::lstm(gates, w); }

// case: lstm_states
// expect: lstm\(gates, w, h, c\), gru\(gates, w, b, h\): states must be \[B, H\]
// expect: state_is_batch_by_rows_of_w<gradus::shape<1(UL)?, 5(UL)?>, gradus::shape<2(UL)?, 5(UL)?> ?>
auto f(const tensor<2, 3, 20>& gates, const tensor<5, 20>& w, const tensor<1, 5>& h) {
  return gr::lstm(gates, w, h, h);
}
// twin
auto f(const tensor<2, 3, 20>& gates, const tensor<5, 20>& w, const tensor<2, 5>& h) {
  return gr::lstm(gates, w, h, h);
}
