// expect: backward\(loss\): the loss is a value within a checkpoint region; return it from the region first
#include <gradus/gradus.hpp>

void f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<3>>& x) {
  const auto loss = gradus::checkpoint(
      [](auto v) {
        auto sum = gradus::sum(v * v);
#ifdef GRADUS_FAIL
        gradus::backward(sum);
#endif
        return sum;
      },
      tape.variable(x));
  gradus::backward(loss);
}
