// expect: attention<Heads>\(q, k, v\): the last axis of k and v must be divisible by the depth of q's heads
// expect(g++): width_divides<40, 16>
// expect(clang++): width_divides<shape<2, 8, 40>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 8, 40>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 8, 48>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 5, 6 * 16>>& q, const subject& k) {
  return gradus::attention<6>(q, k, k);
}
