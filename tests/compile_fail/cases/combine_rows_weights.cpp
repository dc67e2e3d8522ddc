// expect: combine_rows\(x, weights, places\): weights must have the shape of places
// expect: weights_have_places<(gradus::)?shape<30(UL)?, 3(UL)?>, (gradus::)?shape<30(UL)?, 2(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t copies = 3;
#else
constexpr gradus::index_t copies = 2;
#endif

auto f(const gradus::tensor<float, gradus::shape<60, 12>>& x,
       const gradus::tensor<float, gradus::shape<30, copies>>& weights,
       const gradus::tensor<std::int32_t, gradus::shape<30, 2>>& places) {
  return gradus::combine_rows(x, weights, places);
}
