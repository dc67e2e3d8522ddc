// expect: max<axes<0>>\(x\): axes are a type, gradus::axes<\.\.\.>
// expect: axes_are_a_type<0, -1>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) {
#ifdef GRADUS_FAIL
  return gradus::max<0, -1>(x);
#else
  return gradus::max<gradus::axes<0, -1>>(x);
#endif
}
