// expect: matmul\(a, b\): the leading axes of a and b must be equal, or b must be one matrix
// expect: shape<6, 2, 3>, (gradus::)?shape<7, 3, 4>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<7, 3, 4>>;
#else
using subject = gradus::tensor<float, gradus::shape<6, 3, 4>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<6, 2, 3>>& a, const subject& b) { return gradus::matmul(a, b); }
