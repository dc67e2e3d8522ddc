// expect: layer_norm\(x, weight, bias\): the operands must have floating-point elements
// expect: have_floating_elements<int, float, float>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = int;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<2, 3>>& x, const gradus::tensor<float, gradus::shape<3>>& w) {
  return gradus::layer_norm(x, w, w);
}
