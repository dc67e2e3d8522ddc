// expect: permute<order\.\.\.>\(x\): axes count from 0, from the front
// expect: axes_count_from_zero<-1, 0>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::permute<-1, 0>(x);
#else
  return gradus::permute<1, 0>(x);
#endif
}
