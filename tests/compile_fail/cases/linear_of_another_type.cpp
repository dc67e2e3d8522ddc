// expect: matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one 16-bit type
// expect: element_types_fit<false, .*linear, double, float, float>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = double;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<4, 2>>& x,
       const gradus::nn::linear<gradus::on<gradus::cpu>, 2, 3>& layer) {
  return layer(x);
}
