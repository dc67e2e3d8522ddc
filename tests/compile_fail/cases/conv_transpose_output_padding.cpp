// expect: conv_transpose2d<options>\(x, w\): output_padding must be less than the stride or the dilation
// expect(g++): output_padding_is_less_than_stride_or_dilation<2(UL)?, 2(UL)?, 1(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t more = 2;
#else
constexpr gradus::index_t more = 1;
#endif

auto f(const gradus::tensor<float, gradus::shape<8, 3, 6, 6>>& x,
       const gradus::tensor<float, gradus::shape<3, 5, 3, 3>>& w) {
  return gradus::conv_transpose2d<gradus::conv_transpose{.stride = 2, .output_padding = more}>(x, w);
}
