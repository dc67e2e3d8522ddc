// expect: mse_loss\(x, targets\) and other losses: x and targets must have the same shape
// expect: shape<4, 1>, (gradus::)?shape<4>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
using labels = gradus::tensor<float, gradus::shape<4>>;
#else
using labels = gradus::tensor<float, gradus::shape<4, 1>>;
#endif

auto f(const gradus::tensor<float, gradus::shape<4, 1>>& x, const labels& t) { return gradus::huber_loss(x, t); }
