// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*attention.*, float, double, double>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = double;
#else
using element = float;
#endif

auto f(const gradus::tensor<float, gradus::shape<1, 2, 3, 4>>& q,
       const gradus::tensor<element, gradus::shape<1, 2, 3, 4>>& k) {
  return gradus::attention(q, k, k);
}
