// expect: grouped_matmul\(x, w, offsets\): columns of x must equal rows of each matrix of w
// expect: columns_of_x_equal_rows_of_w<12(UL)?, 16(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t in = 16;
#else
constexpr gradus::index_t in = 12;
#endif

auto f(const gradus::tensor<float, gradus::shape<30, 12>>& x, const gradus::tensor<float, gradus::shape<4, in, 7>>& w,
       const gradus::tensor<std::int32_t, gradus::shape<5>>& offsets) {
  return gradus::grouped_matmul(x, w, offsets);
}
