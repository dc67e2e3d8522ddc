// expect: cross_entropy<Vocabulary>\(logits, targets\): Vocabulary must not exceed the columns of logits
// expect: vocabulary_fits_columns_of_logits<51(UL)?, 50(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t vocabulary = 51;
#else
constexpr gradus::index_t vocabulary = 49;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 50>>& logits,
       const gradus::tensor<std::int32_t, gradus::shape<8>>& targets) {
  return gradus::cross_entropy<vocabulary>(logits, targets);
}
