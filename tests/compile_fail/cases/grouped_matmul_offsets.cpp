// expect: grouped_matmul\(x, w, offsets\): offsets must be one more than the matrices of w
// expect: offsets_are_one_more_than_matrices<4(UL)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t ends = 4;
#else
constexpr gradus::index_t ends = 5;
#endif

auto f(const gradus::tensor<float, gradus::shape<30, 12>>& x, const gradus::tensor<float, gradus::shape<4, 12, 7>>& w,
       const gradus::tensor<std::int32_t, gradus::shape<ends>>& offsets) {
  return gradus::grouped_matmul(x, w, offsets);
}
