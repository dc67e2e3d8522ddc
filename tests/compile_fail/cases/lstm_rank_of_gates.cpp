// expect: lstm\(gates, w\), gru\(gates, w, b\): gates must have three axes, \[B, T, columns\], and w two
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using gates_shape = gradus::shape<3, 20>;
#else
using gates_shape = gradus::shape<1, 3, 20>;
#endif

auto f(const gradus::tensor<float, gates_shape>& gates, const gradus::tensor<float, gradus::shape<5, 20>>& w) {
  return gradus::lstm(gates, w);
}
