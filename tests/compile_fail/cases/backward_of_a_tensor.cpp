// expect: backward\(loss\): the loss was not recorded; compute it from tape\.watch\(x\) or tape\.variable\(x\)
#include <gradus/gradus.hpp>

using scalar = gradus::tensor<float, gradus::shape<>>;

void f(gradus::tape<gradus::cpu>& tape, const scalar& x) {
#ifdef GRADUS_FAIL
  static_cast<void>(tape);
  gradus::backward(x);
#else
  gradus::backward(tape.variable(x));
#endif
}
