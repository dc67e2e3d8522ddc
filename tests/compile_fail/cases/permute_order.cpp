// expect: permute<order\.\.\.>\(x\): the order must name each axis of x once
// expect: shape<2, 3>, 0(U?L)?, 0(U?L)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define ORDER 0, 0
#else
#define ORDER 1, 0
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& x) { return gradus::permute<ORDER>(x); }
