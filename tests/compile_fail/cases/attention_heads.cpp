// expect: attention<Heads>\(q, k, v\): Heads must be a multiple of the heads of k and v
// expect(g++): heads_share<6, 4>
// expect(clang++): heads_share<6UL, shape<2, 8, 64>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 8, 4 * 16>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 8, 3 * 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 5, 6 * 16>>& q, const subject& k) {
  return gradus::attention<6>(q, k, k, {.causal = true});
}
