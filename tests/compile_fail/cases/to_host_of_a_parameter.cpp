// expect: to_host\(x\): x must be a plain tensor; write to_host\(x\.value\(\)\)
// expect: is_a_plain_tensor<(gradus::)?param<
#include <gradus/gradus.hpp>

void f(const gradus::param<gradus::on<gradus::cpu>, 2>& weight) {
#ifdef GRADUS_FAIL
  gradus::to_host(weight);
#else
  gradus::to_host(weight.value());
#endif
}
