// expect: softmax\(x\): works along the last axis only; permute x first
// expect: works_along_the_last_axis_only<(gradus::)?axes<0>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::softmax<gradus::axes<0>>(x);
#else
  return gradus::permute<1, 0>(gradus::softmax(gradus::permute<1, 0>(x)));
#endif
}
