// expect: linear\(x, w, b\): columns of w must equal the length of b
// expect: columns_of_w_equal_length_of_b<10(UL)?, 12(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<12>>;
#else
using subject = gradus::tensor<float, gradus::shape<10>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<64, 784>>& x, const gradus::tensor<float, gradus::shape<784, 10>>& w,
       const subject& b) {
  return gradus::linear(x, w, b);
}
