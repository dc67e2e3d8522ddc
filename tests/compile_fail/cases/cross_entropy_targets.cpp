// expect(g++): error: static assertion failed: cross_entropy\(logits, targets\): targets must have the shape of logits without the last axis$
// expect(g++): note: .gradus::detail::targets_match_rows_of_logits<gradus::shape<8, 16>, gradus::shape<8, 15> ?>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::targets_match_rows_of_logits<gradus::shape<8, 16>, gradus::shape<8, 15> ?>.:? "?cross_entropy\(logits, targets\): targets must have the shape of logits without the last axis"?$
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 15>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<8, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16, 50>>& logits, const subject& targets) {
  return gradus::cross_entropy(logits, targets);
}
