// expect: slice<axis, first, count>\(x\): axes and positions count from 0, from the front
// expect: numbers_are_not_negative<-1, 0, 2>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::slice<-1, 0, 2>(x);
#else
  return gradus::slice<1, 0, 2>(x);
#endif
}
