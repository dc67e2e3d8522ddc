// expect: slice<axis, first, count>\(x\): x has no such axis
// expect: axis_exists<2(UL)?, 2(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t axis = 2;
#else
constexpr gradus::index_t axis = 1;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::slice<axis, 0, 1>(x); }
