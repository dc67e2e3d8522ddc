// expect: linear_cross_entropy\(x, table, targets\): targets must have the shape of x without the last axis
// expect: shape<8, 4>, (gradus::)?shape<8, 3>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 3>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 4>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 4, 16>>& x,
       const gradus::tensor<float, gradus::shape<50, 16>>& table, const subject& targets) {
  return gradus::linear_cross_entropy(x, table, targets);
}
