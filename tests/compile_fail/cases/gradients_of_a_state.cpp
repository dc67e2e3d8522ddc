// expect: gradients\(loss, x\.\.\.\): each x must be a parameter or a value made by tape.variable\(\)
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
#define WITH_RESPECT_TO s
#else
#define WITH_RESPECT_TO x
#endif

auto f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<>>& y,
       const gradus::state<gradus::on<gradus::cpu>>& s) {
  const auto x = tape.variable(y);
  return gradus::gradients(x * s, WITH_RESPECT_TO);
}
