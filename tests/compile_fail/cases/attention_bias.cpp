// expect: attention\(q, k, v, bias\): bias must be \[1 or B, 1 or heads, Tq, Tk\]
// expect: shape<1, 2, 8, 5>, 2, 6, 5, 8>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<1, 2, 8, 5>>;
#else
using subject = gradus::tensor<float, gradus::shape<1, 6, 5, 8>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 5, 6 * 16>>& q,
       const gradus::tensor<float, gradus::shape<2, 8, 3 * 16>>& k, const subject& bias) {
  return gradus::attention<6>(q, k, k, bias);
}
