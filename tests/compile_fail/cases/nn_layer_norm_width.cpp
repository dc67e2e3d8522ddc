// expect: layer_norm\(x, weight, bias\): columns of x must equal the length of weight
// expect: columns_equal_length_of_weight<96(UL)?, 64(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t width = 64;
#else
constexpr gradus::index_t width = 96;
#endif

auto f(const gradus::nn::layer_norm<gradus::on<gradus::cpu>, width>& layer,
       const gradus::tensor<float, gradus::shape<4, 96>>& x) {
  return layer(x);
}
