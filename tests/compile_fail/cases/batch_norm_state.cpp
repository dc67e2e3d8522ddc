// expect: batch_norm\(x, weight, bias, mean, variance\): the running state must have x's channels
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t channels = 4;
#else
constexpr gradus::index_t channels = 3;
#endif

using running = gradus::state<gradus::on<gradus::cpu>, channels>;
using row = gradus::tensor<float, gradus::shape<3>>;
auto f(const gradus::tensor<float, gradus::shape<2, 3, 4>>& x, const row& w, const running& mean, const running& var) {
  return gradus::batch_norm(x, w, w, mean, var);
}
