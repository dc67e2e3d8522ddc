// expect: concat<axis>\(a, b, \.\.\.\): axes count from 0, from the front
// expect: numbers_are_not_negative<-1>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::concat<-1>(x, x);
#else
  return gradus::concat<1>(x, x);
#endif
}
