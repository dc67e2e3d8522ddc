// expect: nll_loss, cross_entropy\(x, targets, weights\): weights must be one floating-point number per class
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using factors = gradus::tensor<float, gradus::shape<4>>;
#else
using factors = gradus::tensor<float, gradus::shape<9>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 9>>& x, const gradus::tensor<std::int32_t, gradus::shape<4>>& t,
       const factors& w) {
  return gradus::cross_entropy(x, t, w, {.smoothing = 0.1});
}
