// expect: rms_norm\(x, weight\): the operands must have floating-point elements
// expect: have_floating_elements<int, float>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = int;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<2, 3>>& x, const gradus::tensor<float, gradus::shape<3>>& w) {
  return gradus::rms_norm(x, w);
}
