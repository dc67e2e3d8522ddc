// expect: topk<count>\(x\): count must be at least 1 and at most the last extent of x
// expect: count_is_within<5(L)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr int count = 5;
#else
constexpr int count = 4;
#endif

auto f(const gradus::tensor<float, gradus::shape<3, 4>>& x) { return gradus::topk<count>(x); }
