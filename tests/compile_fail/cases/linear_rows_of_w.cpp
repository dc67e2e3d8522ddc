// expect(g++): error: static assertion failed: linear\(x, w, b\): columns of x must equal rows of w$
// expect(g++): note: .gradus::detail::columns_of_x_equal_rows_of_w<784, 256>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_of_x_equal_rows_of_w<784, 256>.:? "?linear\(x, w, b\): columns of x must equal rows of w"?$
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
