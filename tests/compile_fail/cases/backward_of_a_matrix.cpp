// expect: backward\(loss\): the loss must have exactly one element
// expect: is_one_element<(gradus::)?shape<2, 3> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<2, 3>>;
#else
using subject = gradus::tensor<float, gradus::shape<1, 1>>;
#endif

void f(gradus::tape<gradus::cpu>& tape, const subject& x) { gradus::backward(tape.variable(x)); }
