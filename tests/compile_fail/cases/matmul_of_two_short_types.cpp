// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*matrix_product<.*, (gradus::)?bf16, (gradus::)?f16>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = gradus::f16;
#else
using element = gradus::bf16;
#endif

auto f(const gradus::tensor<gradus::bf16, gradus::shape<2, 3>>& a,
       const gradus::tensor<element, gradus::shape<3, 2>>& b) {
  return gradus::matmul(a, b);
}
