// expect: interpolate<H, W>\(x\): only B and C of x may be bounded
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using images = gradus::shape<2, 3, 4, gradus::upto<5>>;
#else
using images = gradus::shape<gradus::upto<2>, gradus::upto<3>, 4, 5>;
#endif

auto f(const gradus::tensor<float, images>& x) { return gradus::interpolate<8, 10>(x); }
