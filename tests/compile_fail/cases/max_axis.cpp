// expect: sum<axes\.\.\.>\(x\) and other reductions: x has no such axis
// expect: axes_exist<(gradus::)?axes<-3>, 2
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr int axis = -3;
#else
constexpr int axis = -2;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::max<axis>(x); }
