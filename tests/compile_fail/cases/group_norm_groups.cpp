// expect: group_norm<Groups>\(x, weight, bias\): the channels must be divisible by the number of groups
// expect(g++): channels_are_divisible_by_groups<6(UL)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t groups = 4;
#else
constexpr gradus::index_t groups = 3;
#endif

auto f(const gradus::nn::group_norm<gradus::on<gradus::cpu>, groups, 6>& norm,
       const gradus::tensor<float, gradus::shape<2, 6, 4>>& x) {
  return norm(x);
}
