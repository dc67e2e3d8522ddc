// expect: pooling\(x\): a window must fit the padded axis, whose extent is a number, not upto<N>; padding is at most half of its size
// expect(g++): window_fits<3(UL)?, 4(UL)?, 0(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t size = 4;
#else
constexpr gradus::index_t size = 3;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3, 3, 3>>& x) {
  return gradus::max_pool2d<gradus::pool{.size = size}>(x);
}
