// expect: slice<axis, first, count>\(x\): first and count must be positive
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::slice<-1, -2, 2>(x);
#else
  return gradus::slice<-1, 1, 2>(x);
#endif
}
