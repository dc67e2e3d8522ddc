// expect: lstm\(gates, w, h, c\), gru\(gates, w, b, h\): states must be \[B, H\]
// expect: state_is_batch_by_rows_of_w<gradus::shape<1(UL)?, 5(UL)?>, gradus::shape<2(UL)?, 5(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 1;
#else
constexpr gradus::index_t rows = 2;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3, 20>>& gates,
       const gradus::tensor<float, gradus::shape<5, 20>>& w, const gradus::tensor<float, gradus::shape<rows, 5>>& h) {
  return gradus::lstm(gates, w, h, h);
}
