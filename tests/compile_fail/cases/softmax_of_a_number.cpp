// expect: softmax\(x\): works along the last axis only; permute x first
// expect-lines: 15
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<4, 8>>& x) {
#ifdef GRADUS_FAIL
  return gradus::softmax<0>(x);
#else
  return gradus::softmax(gradus::permute<1, 0>(x));
#endif
}
