// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*matrix_product<.*, float, double>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = double;
#else
using element = float;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const gradus::tensor<element, gradus::shape<3, 2>>& b) {
  return gradus::matmul(a, b);
}
