// expect: x \+= y, x -= y, x \*= y, x /= y: x must be a tensor or a traced value that is not const
// expect: shape<3>.*shape<2, 3>
#include <gradus/gradus.hpp>

void f(gradus::tensor<float, gradus::shape<3>>& x, gradus::tensor<float, gradus::shape<2, 3>>& y) {
#ifdef GRADUS_FAIL
  x += y;
#else
  y += x;
#endif
}
