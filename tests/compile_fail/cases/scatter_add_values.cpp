// expect: scatter_add<axis>\(x, indices, values\): values need the shape of indices
// expect: values_have_indices<(gradus::)?shape<3(UL)?, 8(UL)?>, (gradus::)?shape<3(UL)?, 9(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t columns = 8;
#else
constexpr gradus::index_t columns = 9;
#endif

auto f(const gradus::tensor<float, gradus::shape<3, 4>>& x,
       const gradus::tensor<std::int32_t, gradus::shape<3, 9>>& indices,
       const gradus::tensor<float, gradus::shape<3, columns>>& values) {
  return gradus::scatter_add<1>(x, indices, values);
}
