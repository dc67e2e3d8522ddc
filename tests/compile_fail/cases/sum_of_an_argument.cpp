// expect: sum<axes\.\.\.>\(x\) and other reductions: axes are template arguments, as in sum<0, -1>\(x, keep_axes\)
// expect-lines: 17
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<4, 8>>& x) {
#ifdef GRADUS_FAIL
  return gradus::sum(x, 0);
#else
  return gradus::sum<0>(x);
#endif
}
