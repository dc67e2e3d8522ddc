// expect: exp, log, .*must have floating-point elements
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<std::int32_t, gradus::shape<3>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

auto f(const subject& x) { return gradus::exp(x); }
