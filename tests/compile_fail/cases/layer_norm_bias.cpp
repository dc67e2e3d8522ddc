// expect: layer_norm\(x, weight, bias\): weight and bias must have the same length
// expect: length_of_weight_equals_length_of_bias<768(UL)?, 512(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<512>>;
#else
using subject = gradus::tensor<float, gradus::shape<768>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 768>>& x, const gradus::tensor<float, gradus::shape<768>>& weight,
       const subject& bias) {
  return gradus::layer_norm(x, weight, bias);
}
