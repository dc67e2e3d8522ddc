// expect: linear\(x, w, b\): columns of x must equal rows of w
// expect: columns_of_x_equal_rows_of_w<784(UL)?, 256(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<256, 10>>;
#else
using subject = gradus::tensor<float, gradus::shape<784, 10>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<64, 784>>& x, const subject& w,
       const gradus::tensor<float, gradus::shape<10>>& b) {
  return gradus::linear(x, w, b);
}
