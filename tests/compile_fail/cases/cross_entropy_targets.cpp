// expect: cross_entropy\(logits, targets\): targets must have the shape of logits without the last axis
// expect: shape<8, 16>, (gradus::)?shape<8, 15>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 15>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16, 50>>& logits, const subject& targets) {
  return gradus::cross_entropy(logits, targets);
}
