// expect: a < b, a == b, logical_and\(a, b\): the shapes of a and b must be equal, or 1 where they differ
// expect: shape<5>, (gradus::)?shape<2, 3>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<5>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

auto f(const subject& a, const gradus::tensor<float, gradus::shape<2, 3>>& b) { return a <= b; }
