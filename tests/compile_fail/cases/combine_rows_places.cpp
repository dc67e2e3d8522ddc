// expect: combine_rows\(x, weights, places\): x must have a row for each of the places
// expect: each_place_has_a_row<(gradus::)?shape<30(UL)?, 12(UL)?>, (gradus::)?shape<30(UL)?, 2(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 30;
#else
constexpr gradus::index_t rows = 60;
#endif

auto f(const gradus::tensor<float, gradus::shape<rows, 12>>& x,
       const gradus::tensor<float, gradus::shape<30, 2>>& weights,
       const gradus::tensor<std::int32_t, gradus::shape<30, 2>>& places) {
  return gradus::combine_rows(x, weights, places);
}
