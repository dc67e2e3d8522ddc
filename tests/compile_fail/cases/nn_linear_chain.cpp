// expect: linear\(x, w, b\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<256(UL)?, 128(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t width = 128;
#else
constexpr gradus::index_t width = 256;
#endif

using X = gradus::on<gradus::cpu>;
auto f(const gradus::nn::linear<X, 784, 256>& first, const gradus::nn::linear<X, width, 10>& second,
       const gradus::tensor<float, gradus::shape<4, 784>>& x) {
  return second(gradus::relu(first(x)));
}
