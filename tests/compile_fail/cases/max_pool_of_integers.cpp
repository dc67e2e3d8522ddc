// expect: pooling\(x\): x must have floating-point elements
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using element = std::int32_t;
#else
using element = float;
#endif

auto f(const gradus::tensor<element, gradus::shape<1, 3, 4, 4>>& x) {
  return gradus::max_pool2d<gradus::pool{.size = 2}>(x);
}
