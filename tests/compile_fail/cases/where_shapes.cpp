// expect: where\(condition, a, b\): the three shapes must broadcast together
// expect: shape<5>, (gradus::)?shape<2, 3>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<5>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

auto f(const subject& condition, const gradus::tensor<float, gradus::shape<2, 3>>& a) {
  return gradus::where(condition, a, a);
}
