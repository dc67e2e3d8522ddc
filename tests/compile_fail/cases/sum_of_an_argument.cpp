// expect: sum<axes<0>>\(x\): axes are a type, gradus::axes<\.\.\.>
// expect-lines: 15
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<4, 8>>& x) {
#ifdef GRADUS_FAIL
  return gradus::sum(x, 0);
#else
  return gradus::sum<gradus::axes<0>>(x);
#endif
}
