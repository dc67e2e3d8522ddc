// expect: linear_cross_entropy\(x, table, targets\): targets must be integers
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<8>>;
#else
using subject = gradus::tensor<std::int32_t, gradus::shape<8>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 16>>& x, const gradus::tensor<float, gradus::shape<50, 16>>& table,
       const subject& targets) {
  return gradus::linear_cross_entropy(x, table, targets);
}
