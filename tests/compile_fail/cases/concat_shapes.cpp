// expect: concat<axis>\(a, b, \.\.\.\): the shapes must be equal on every other axis
// expect: shape<2, 3>, (gradus::)?shape<2, 4>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4>>;
#else
using subject = gradus::tensor<float, gradus::shape<5, 3>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const subject& b) { return gradus::concat<0>(a, b); }
