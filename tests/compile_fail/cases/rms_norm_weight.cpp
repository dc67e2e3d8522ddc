// expect: rms_norm\(x, weight\): columns of x must equal the length of weight
// expect: columns_equal_length_of_weight<768(UL)?, 512(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<512>>;
#else
using subject = gradus::tensor<float, gradus::shape<768>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 768>>& x, const subject& weight) {
  return gradus::rms_norm(x, weight);
}
