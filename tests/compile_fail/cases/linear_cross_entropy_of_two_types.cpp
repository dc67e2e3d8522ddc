// expect: linear_cross_entropy\(x, table, targets\): x and table must be floating-point numbers of one type
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<double, gradus::shape<50, 16>>;
#else
using subject = gradus::tensor<float, gradus::shape<50, 16>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16>>& x, const subject& table,
       const gradus::tensor<std::int32_t, gradus::shape<8>>& targets) {
  return gradus::linear_cross_entropy(x, table, targets);
}
