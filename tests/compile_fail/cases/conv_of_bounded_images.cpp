// expect: conv<options>\(x, w\): only the batch may be upto<N>
// expect: only_the_batch_is_bounded<
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using images = gradus::tensor<float, gradus::shape<8, 3, gradus::upto<32>, 32>>;
#else
using images = gradus::tensor<float, gradus::shape<gradus::upto<8>, 3, 32, 32>>;
#endif

auto f(const images& x, const gradus::tensor<float, gradus::shape<16, 3, 3, 3>>& w) { return gradus::conv2d(x, w); }
