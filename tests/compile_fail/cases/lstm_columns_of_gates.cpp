// expect: lstm\(gates, w\), gru\(gates, w, b\): columns of gates must equal columns of w
// expect(g++): columns_of_gates_equal_columns_of_w<5(UL)?, 20(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t columns = 5;  // x itself, without the product with its weights
#else
constexpr gradus::index_t columns = 20;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3, columns>>& gates,
       const gradus::tensor<float, gradus::shape<5, 20>>& w) {
  return gradus::lstm(gates, w);
}
