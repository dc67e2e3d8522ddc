// expect: linear_cross_entropy\(x, table, targets\): columns of x must equal columns of table
// expect: columns_of_x_equal_columns_of_table<16(UL)?, 15(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<50, 15>>;
#else
using subject = gradus::tensor<float, gradus::shape<50, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16>>& x, const subject& table,
       const gradus::tensor<std::int32_t, gradus::shape<8>>& targets) {
  return gradus::linear_cross_entropy(x, table, targets);
}
