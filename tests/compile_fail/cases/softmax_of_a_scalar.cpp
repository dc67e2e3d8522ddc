// expect: softmax\(x\): x needs at least one axis
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<>>;
#else
using subject = gradus::tensor<float, gradus::shape<3>>;
#endif

auto f(const subject& x) { return gradus::softmax(x); }
