// expect: maximum\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4>>;
#else
using subject = gradus::tensor<float, gradus::shape<2, 1>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return gradus::maximum(a, b); }
