// expect: linear\(x, w, b\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<256(UL)?, 10(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows_of_w2 = 10;
#else
constexpr gradus::index_t rows_of_w2 = 256;
#endif

template <class X>
struct mlp {
  gradus::param<X, 784, 256> w1;
  gradus::param<X, 256> b1;
  gradus::param<X, rows_of_w2, 10> w2;
  gradus::param<X, 10> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)
  auto operator()(auto x) const { return gradus::linear(gradus::gelu(gradus::linear(x, w1, b1)), w2, b2); }
};
auto f(gradus::tape<gradus::cpu>& tape, const mlp<gradus::on<gradus::cpu>>& net,
       const gradus::tensor<float, gradus::shape<64, 784>>& x) {
  return net(tape.watch(x));
}
