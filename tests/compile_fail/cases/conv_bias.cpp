// expect: conv<options>\(x, w, b\): the length of b must equal the filters, the first extent of w
// expect(g++): bias_has_one_value_per_filter<3(UL)?, 16(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using bias = gradus::tensor<float, gradus::shape<3>>;
#else
using bias = gradus::tensor<float, gradus::shape<16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 3, 32, 32>>& x,
       const gradus::tensor<float, gradus::shape<16, 3, 3, 3>>& w, const bias& b) {
  return gradus::conv2d(x, w, b);
}
