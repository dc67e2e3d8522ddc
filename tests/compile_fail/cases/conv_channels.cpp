// expect: conv<options>\(x, w\): channels of x must equal the second extent of w times groups
// expect(g++): channels_of_x_are_those_of_the_filters<4(UL)?, 3(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using images = gradus::tensor<float, gradus::shape<8, 4, 32, 32>>;
#else
using images = gradus::tensor<float, gradus::shape<8, 3, 32, 32>>;
#endif

auto f(const images& x, const gradus::tensor<float, gradus::shape<16, 3, 3, 3>>& w) { return gradus::conv2d(x, w); }
