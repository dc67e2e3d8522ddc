// expect: linear_cross_entropy<Vocabulary>\(x, table, targets\): Vocabulary must not exceed the rows of table
// expect: vocabulary_fits_rows_of_table<51(UL)?, 50(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t vocabulary = 51;
#else
constexpr gradus::index_t vocabulary = 49;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16>>& x, const gradus::tensor<float, gradus::shape<50, 16>>& table,
       const gradus::tensor<std::int32_t, gradus::shape<8>>& targets) {
  return gradus::linear_cross_entropy<vocabulary>(x, table, targets);
}
