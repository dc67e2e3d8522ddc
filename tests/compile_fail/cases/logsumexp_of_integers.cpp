// expect: logsumexp\(x\): x must have floating-point elements
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<int, gradus::shape<3>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

auto f(const subject& x) { return gradus::logsumexp(x); }
