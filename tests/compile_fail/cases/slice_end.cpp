// expect: slice<axis, first, count>\(x\): first \+ count must be within the axis of x
// expect: ends_within<4(UL)?, 3(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t count = 2;
#else
constexpr gradus::index_t count = 1;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::slice<1, 2, count>(x); }
