// expect: split<axis, sizes\.\.\.>\(x\): the sizes must add up to the axis of x
// expect: elements_equal_extent<5(UL)?, 6(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t last = 3;
#else
constexpr gradus::index_t last = 4;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 6>>& x) { return gradus::split<1, 2, last>(x); }
