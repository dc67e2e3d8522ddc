// expect: attention\(q, k, v\): q and k must have the same batch, heads and depth, or q a multiple of k.s heads
// expect: shape<2, 4, 8, 24>, (gradus::)?shape<2, 4, 8, 16>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4, 8, 24>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 4, 8, 16>>;
#endif

auto f(const subject& q, const gradus::tensor<float, gradus::shape<2, 4, 8, 16>>& k) {
  return gradus::attention(q, k, k);
}
