// expect: conv<options>\(x, w\): groups must divide the filters, the first extent of w
// expect(g++): groups_divide<4(UL)?, 6(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using filters = gradus::tensor<float, gradus::shape<6, 1, 3, 3>>;
#else
using filters = gradus::tensor<float, gradus::shape<8, 1, 3, 3>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 4, 32, 32>>& x, const filters& w) {
  return gradus::conv2d<gradus::conv{.groups = 4}>(x, w);
}
