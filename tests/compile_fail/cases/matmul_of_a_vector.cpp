// expect: matmul\(a, b\): a and b need at least two axes
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<3>>;
#else
using subject = gradus::tensor<float, gradus::shape<3, 1>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return gradus::matmul(a, b); }
