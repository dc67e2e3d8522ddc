// expect: pooling\(x\): images have the axes \[B, C, H, W\]
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using images = gradus::shape<3, 4, 4>;
#else
using images = gradus::shape<1, 3, 4, 4>;
#endif

auto f(const gradus::tensor<float, images>& x) { return gradus::avg_pool2d<gradus::pool{.size = 2}>(x); }
