// expect: matmul\(a, b\): columns of a must equal rows of b
// expect: columns_equal_rows<3(UL)?, 5(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<3, 5>>;
#else
using subject = gradus::tensor<float, gradus::shape<5, 3>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) {
  return gradus::matmul<gradus::transpose{.b = true}>(a, b);
}
