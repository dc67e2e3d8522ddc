// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis
// expect: axes_exist<(gradus::)?axes<2>, 2
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr int axis = 2;
#else
constexpr int axis = -1;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::sum<axis>(x); }
