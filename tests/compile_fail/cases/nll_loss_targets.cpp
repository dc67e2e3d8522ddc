// expect: nll_loss, cross_entropy\(x, targets\): targets must be integers in the shape of x without the last axis
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using labels = gradus::tensor<std::int32_t, gradus::shape<4, 1>>;
#else
using labels = gradus::tensor<std::int32_t, gradus::shape<4>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 9>>& x, const labels& t) { return gradus::nll_loss(x, t); }
