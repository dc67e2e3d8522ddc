// expect: cross_entropy\(logits, targets\): targets must be integers
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<8>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<8>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 50>>& logits, const subject& targets) {
  return gradus::cross_entropy(logits, targets);
}
