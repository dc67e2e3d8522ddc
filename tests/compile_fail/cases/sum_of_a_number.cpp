// expect: sum<axes<0>>\(x\): axes are a type, gradus::axes<\.\.\.>
// expect: axes_are_a_type<0>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::sum<0>(x);
#else
  return gradus::sum<gradus::axes<0>>(x);
#endif
}
