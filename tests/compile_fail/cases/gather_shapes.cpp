// expect: gather<axis>\(x, indices\): indices need the shape of x, but for the axis
// expect: shapes_fit_beside<(gradus::)?shape<2(UL)?, 9(UL)?>, (gradus::)?shape<3(UL)?, 4(UL)?>, 1(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 2;
#else
constexpr gradus::index_t rows = 3;
#endif

auto f(const gradus::tensor<float, gradus::shape<3, 4>>& x,
       const gradus::tensor<std::int32_t, gradus::shape<rows, 9>>& indices) {
  return gradus::gather<1>(x, indices);
}
