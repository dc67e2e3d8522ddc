// expect: conv<options>\(x, w\): the kernel must not be wider than the padded image
// expect(g++): kernel_is_within_the_image<9(UL)?, 8(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t dilation = 4;
#else
constexpr gradus::index_t dilation = 3;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 3, 6>>& x, const gradus::tensor<float, gradus::shape<5, 3, 3>>& w) {
  return gradus::conv1d<gradus::conv{.padding = 1, .dilation = dilation}>(x, w);
}
