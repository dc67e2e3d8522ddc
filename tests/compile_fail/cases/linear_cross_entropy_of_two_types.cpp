// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*linear_cross_entropy<50, 0>, float, double, int>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<double, gradus::shape<50, 16>>;
#else
using subject = gradus::tensor<float, gradus::shape<50, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16>>& x, const subject& table,
       const gradus::tensor<std::int32_t, gradus::shape<8>>& targets) {
  return gradus::linear_cross_entropy(x, table, targets);
}
