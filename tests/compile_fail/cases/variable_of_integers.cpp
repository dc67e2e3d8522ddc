// expect: tape\.variable\(x\): only floating-point tensors have gradients
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<int, gradus::shape<2>>;
#else
using subject = gradus::tensor<gradus::bf16, gradus::shape<2>>;
#endif

auto f(gradus::tape<gradus::cpu>& tape, const subject& x) { return tape.variable(x).value(); }
