// expect: softmax<axis>\(x\): x has no such axis
// expect: axes_exist<(gradus::)?axes<2>, 2
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::softmax<2>(x);
#else
  return gradus::softmax<-2>(x);
#endif
}
