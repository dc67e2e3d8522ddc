// expect: expand_as\(x, y\): the shape of x must broadcast to that of y
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using row = gradus::shape<3>;
#else
using row = gradus::shape<4>;
#endif

auto f(const gradus::tensor<float, row>& x, const gradus::tensor<float, gradus::shape<gradus::upto<9>, 4>>& y) {
  return gradus::expand_as(x, y);
}
