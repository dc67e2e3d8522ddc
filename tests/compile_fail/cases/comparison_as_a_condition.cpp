// expect: if \(a > b\), !\(a == b\): a comparison of tensors has an answer for each element
#include <gradus/gradus.hpp>

bool f(const gradus::tensor<float, gradus::shape<>>& loss) {
#ifdef GRADUS_FAIL
  if (loss > 0.5) return true;
#else
  if (gradus::item(loss > 0.5)) return true;
#endif
  return false;
}
