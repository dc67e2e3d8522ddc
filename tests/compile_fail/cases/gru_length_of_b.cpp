// expect: gru\(gates, w, b\): columns of w must equal the length of b
// expect(g++): columns_of_w_equal_length_of_b<15(UL)?, 5(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t length = 5;
#else
constexpr gradus::index_t length = 15;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3, 15>>& gates,
       const gradus::tensor<float, gradus::shape<5, 15>>& w, const gradus::tensor<float, gradus::shape<length>>& b) {
  return gradus::gru(gates, w, b);
}
