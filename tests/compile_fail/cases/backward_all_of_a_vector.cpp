// expect: backward_all\(losses\.\.\.\): each loss must have exactly one element
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<5>>;
#else
using subject = gradus::tensor<float, gradus::shape<>>;
#endif

void f(gradus::tape<gradus::cpu>& tape, const subject& x, const gradus::tensor<float, gradus::shape<>>& y) {
  gradus::backward_all(tape.variable(y), tape.variable(x));
}
