// expect: cumsum<axis>\(x\): x has no such axis
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::cumsum<2>(x);
#else
  return gradus::cumsum<-2>(x);
#endif
}
