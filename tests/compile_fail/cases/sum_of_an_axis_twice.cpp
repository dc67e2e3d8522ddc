// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis, or it is named twice
// expect: axes_exist<(gradus::)?axes<1, -1>, 2
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr int axis = -1;
#else
constexpr int axis = 0;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::sum<1, axis>(x); }
