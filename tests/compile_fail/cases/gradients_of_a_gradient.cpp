// expect: gradients\(loss, x\.\.\.\): the loss was not recorded; .*no second derivatives in reverse
#include <gradus/gradus.hpp>

auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<2>>& y) {
  const auto x = tape.variable(y);
  const auto square = gradus::sum(x * x);
#ifdef GRADUS_FAIL
  const auto [slope] = gradus::gradients(square, x);
  return gradus::gradients(gradus::sum(slope), x);
#else
  return gradus::gradients(square, x);
#endif
}
