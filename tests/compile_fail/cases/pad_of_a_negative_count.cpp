// expect: pad<axis, before, after>\(x, value\): before and after must be at least 0; slice removes entries
// expect: counts_are_not_negative<-1(L)?, 0(L)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr int before = -1;
#else
constexpr int before = 1;
#endif

auto f(const gradus::tensor<float, gradus::shape<3, 4>>& x) { return gradus::pad<1, before, 0>(x); }
