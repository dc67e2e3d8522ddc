// expect: batch_norm, group_norm, instance_norm\(x, weight, bias\): weight and bias must have x's channels
// expect(g++): one_weight_and_bias_for_each_channel<3(UL)?, 4(UL)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t channels = 4;
#else
constexpr gradus::index_t channels = 3;
#endif

using X = gradus::on<gradus::cpu>;
auto f(const gradus::nn::batch_norm<X, channels>& norm, const gradus::tensor<float, gradus::shape<2, 3, 4, 4>>& x) {
  return norm(x);
}
