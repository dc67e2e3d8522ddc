// expect: reshape<extents\.\.\.>\(x\): the new shape must have as many elements as x
// expect: elements_equal<8(UL)?, 6(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 4>>;
#else
using subject = gradus::tensor<float, gradus::shape<6>>;
#endif

auto f(const subject& x) { return gradus::reshape<2, 3>(x); }
