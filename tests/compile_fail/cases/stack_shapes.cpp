// expect: stack<axis>\(a, b, \.\.\.\): the shapes must be equal; concat<axis> joins others
// expect: stacked_shapes_are_equal<(gradus::)?shape<2(UL)?, 3(UL)?>, (gradus::)?shape<2(UL)?, 4(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using other = gradus::shape<2, 4>;
#else
using other = gradus::shape<2, 3>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const gradus::tensor<float, other>& b) {
  return gradus::stack<0>(a, b);
}
