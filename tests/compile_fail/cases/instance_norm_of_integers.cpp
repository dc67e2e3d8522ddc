// expect: batch_norm, group_norm, instance_norm\(x, weight, bias\): the operands must have floating-point elements
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = std::int32_t;
#else
using element = float;
#endif

using row = gradus::tensor<float, gradus::shape<3>>;
auto f(const gradus::tensor<element, gradus::shape<2, 3, 4>>& x, const row& w) {
  return gradus::instance_norm(x, w, w);
}
