// expect(g++): error: static assertion failed: layer_norm\(x, weight, bias\): columns of x must equal the length of weight$
// expect(g++): note: .gradus::detail::columns_equal_length_of_weight<768, 512>. evaluates to false$
// expect(clang++): error: static(_assert| assertion) failed due to requirement .detail::columns_equal_length_of_weight<768, 512>.:? "?layer_norm\(x, weight, bias\): columns of x must equal the length of weight"?$
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using subject = gradus::tensor<float, gradus::shape<512>>;
#else
using subject = gradus::tensor<float, gradus::shape<768>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 768>>& x, const subject& weight) {
  return gradus::layer_norm(x, weight, weight);
}
