// expect: interpolate<H, W>\(x\): x must be images \[B, C, h, w\]
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using images = gradus::shape<3, 4, 5>;
#else
using images = gradus::shape<2, 3, 4, 5>;
#endif

auto f(const gradus::tensor<float, images>& x) { return gradus::interpolate<8, 10>(x); }
