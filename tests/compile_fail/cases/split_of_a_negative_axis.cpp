// expect: split<axis, sizes\.\.\.>\(x\): axes count from 0, from the front
// expect: numbers_are_not_negative<-1, 1, 2>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::split<-1, 1, 2>(x);
#else
  return gradus::split<1, 1, 2>(x);
#endif
}
