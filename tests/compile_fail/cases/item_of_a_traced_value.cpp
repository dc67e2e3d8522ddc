// expect: item\(x\): x must be a plain tensor; write item\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?traced<
#include <gradus/gradus.hpp>

float f(gradus::tape<gradus::cpu>& tape, const gradus::tensor<float, gradus::shape<>>& x) {
  auto loss = tape.watch(x) * 2;
#ifdef GRADUS_FAIL
  gradus::item(loss);
  return 0;
#else
  return gradus::item(loss.value());
#endif
}
