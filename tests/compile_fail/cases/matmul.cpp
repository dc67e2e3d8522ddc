#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: bounded_and_static_rows
// expect: a \+ b: the shapes of a and b must be equal, or 1 where they differ
auto sum(const tensor<gr::upto<64>, 3>& a, const tensor<64, 3>& b) { return a + b; }
// twin
auto sum(const tensor<gr::upto<64>, 3>& a, const tensor<gr::upto<64>, 3>& b) { return a + b; }

// case: linear_length_of_b
// expect: linear\(x, w, b\): columns of w must equal the length of b
// expect: columns_of_w_equal_length_of_b<10(UL)?, 12(UL)?>
auto f(const tensor<64, 784>& x, const tensor<784, 10>& w, const tensor<12>& b) { return gr::linear(x, w, b); }
// twin
auto f(const tensor<64, 784>& x, const tensor<784, 10>& w, const tensor<10>& b) { return gr::linear(x, w, b); }

// case: linear_of_another_type
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*linear, double, float, float>
auto f(const gr::tensor<double, gr::shape<4, 2>>& x, const gr::nn::linear<gr::on<gr::cpu>, 2, 3>& layer) {
  return layer(x);
}
// twin
auto f(const tensor<4, 2>& x, const gr::nn::linear<gr::on<gr::cpu>, 2, 3>& layer) { return layer(x); }

// case: linear_of_parameters
// expect: linear\(x, w, b\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<256(UL)?, 10(UL)?>
template <class X>
struct mlp {
  gr::param<X, 784, 256> w1;
  gr::param<X, 256> b1;
  gr::param<X, 10, 10> w2;
  gr::param<X, 10> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)
  auto operator()(auto x) const { return gr::linear(gr::gelu(gr::linear(x, w1, b1)), w2, b2); }
};
auto f(gr::tape<gr::cpu>& tape, const mlp<gr::on<gr::cpu>>& net, const tensor<64, 784>& x) {
  return net(tape.watch(x));
}
// twin
template <class X>
struct mlp {
  gr::param<X, 784, 256> w1;
  gr::param<X, 256> b1;
  gr::param<X, 256, 10> w2;
  gr::param<X, 10> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)
  auto operator()(auto x) const { return gr::linear(gr::gelu(gr::linear(x, w1, b1)), w2, b2); }
};
auto f(gr::tape<gr::cpu>& tape, const mlp<gr::on<gr::cpu>>& net, const tensor<64, 784>& x) {
  return net(tape.watch(x));
}

// case: linear_rank_of_w
// expect: linear\(x, w, b\): w must have two axes and b one
auto f(const tensor<64, 784>& x, const tensor<2, 784, 10>& w, const tensor<10>& b) { return gr::linear(x, w, b); }
// twin
auto f(const tensor<64, 784>& x, const tensor<784, 10>& w, const tensor<10>& b) { return gr::linear(x, w, b); }

// case: linear_rows_of_w
// expect(g++): error: static assertion failed: linear\(x, w, b\): columns of x must equal rows of w$
// expect(g++): note: .gradus::detail::columns_of_x_equal_rows_of_w<784, 256>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_of_x_equal_rows_of_w<784, 256>.:? "?linear\(x, w, b\): columns of x must equal rows of w"?$
auto f(const tensor<64, 784>& x, const tensor<256, 10>& w, const tensor<10>& b) { return gr::linear(x, w, b); }
// twin
auto f(const tensor<64, 784>& x, const tensor<784, 10>& w, const tensor<10>& b) { return gr::linear(x, w, b); }

// case: linear_without_bias
// expect: linear\(x, w\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<784(UL)?, 256(UL)?>
auto f(const tensor<64, 784>& x, const tensor<256, 10>& w) { return gr::linear(x, w); }
// twin
auto f(const tensor<64, 784>& x, const tensor<784, 10>& w) { return gr::linear(x, w); }

// case: matmul_batches
// expect: matmul\(a, b\): the leading axes of a and b must be equal, or b must be one matrix
// expect: shape<6, 2, 3>, (gradus::)?shape<7, 3, 4>
auto f(const tensor<6, 2, 3>& a, const tensor<7, 3, 4>& b) { return gr::matmul(a, b); }
// twin
auto f(const tensor<6, 2, 3>& a, const tensor<6, 3, 4>& b) { return gr::matmul(a, b); }

// case: matmul_columns_rows
// expect(g++): error: static assertion failed: matmul\(a, b\): columns of a must equal rows of b$
// expect(g++): note: .gradus::detail::columns_equal_rows<3, 4>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_equal_rows<3, 4>.:? "?matmul\(a, b\): columns of a must equal rows of b"?$
auto f(const tensor<2, 3>& a, const tensor<4, 5>& b) { return gr::matmul(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 5>& b) { return gr::matmul(a, b); }

// case: matmul_of_a_vector
// expect: matmul\(a, b\): a and b need at least two axes
auto f(const tensor<2, 3>& a, const tensor<3>& b) { return gr::matmul(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 1>& b) { return gr::matmul(a, b); }

// case: matmul_of_float_and_double
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*matrix_product<.*, float, double>
auto f(const tensor<2, 3>& a, const gr::tensor<double, gr::shape<3, 2>>& b) { return gr::matmul(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 2>& b) { return gr::matmul(a, b); }

// case: matmul_of_integers
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*matrix_product<.*, int, int>
auto f(const gr::tensor<int, gr::shape<2, 3>>& a, const gr::tensor<int, gr::shape<3, 2>>& b) {
  return gr::matmul(a, b);
}
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 2>& b) { return gr::matmul(a, b); }

// case: matmul_of_two_short_types
// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*matrix_product<.*, (gradus::)?bf16, (gradus::)?f16>
auto f(const gr::tensor<gr::bf16, gr::shape<2, 3>>& a, const gr::tensor<gr::f16, gr::shape<3, 2>>& b) {
  return gr::matmul(a, b);
}
// twin
auto f(const gr::tensor<gr::bf16, gr::shape<2, 3>>& a, const gr::tensor<gr::bf16, gr::shape<3, 2>>& b) {
  return gr::matmul(a, b);
}

// case: matmul_transposed
// expect: matmul\(a, b\): columns of a must equal rows of b
// expect: columns_equal_rows<3(UL)?, 5(UL)?>
auto f(const tensor<2, 3>& a, const tensor<3, 5>& b) { return gr::matmul<gr::transpose{.b = true}>(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<5, 3>& b) { return gr::matmul<gr::transpose{.b = true}>(a, b); }

// case: nn_linear_chain
// expect: linear\(x, w, b\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<256(UL)?, 128(UL)?>
auto f(const gr::nn::linear<gr::on<gr::cpu>, 784, 256>& first, const gr::nn::linear<gr::on<gr::cpu>, 128, 10>& second,
       const tensor<4, 784>& x) {
  return second(gr::relu(first(x)));
}
// twin
auto f(const gr::nn::linear<gr::on<gr::cpu>, 784, 256>& first, const gr::nn::linear<gr::on<gr::cpu>, 256, 10>& second,
       const tensor<4, 784>& x) {
  return second(gr::relu(first(x)));
}
