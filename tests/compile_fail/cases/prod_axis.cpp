// expect: prod<axes...>\(x\): x has no such axis, or it is named twice
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::prod<1, -1>(x);
#else
  return gradus::prod<0, 1>(x);
#endif
}
