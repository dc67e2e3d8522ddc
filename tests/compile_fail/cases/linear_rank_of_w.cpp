// expect: linear\(x, w, b\): w must have two axes and b one
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 784, 10>>;
#else
using subject = gradus::tensor<float, gradus::shape<784, 10>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<64, 784>>& x, const subject& w,
       const gradus::tensor<float, gradus::shape<10>>& b) {
  return gradus::linear(x, w, b);
}
