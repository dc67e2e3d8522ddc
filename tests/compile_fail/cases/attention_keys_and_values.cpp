// expect: attention\(q, k, v\): k and v must have the same shape
// expect: shape<2, 4, 8, 16>, (gradus::)?shape<2, 4, 7, 16>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4, 7, 16>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 4, 8, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 4, 8, 16>>& q, const subject& v) {
  return gradus::attention(q, q, v);
}
