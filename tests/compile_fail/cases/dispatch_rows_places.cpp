// expect: dispatch_rows\(x, places\): places must have a row for each row of x
// expect: rows_of_x_equal_rows_of_places<30(UL)?, 28(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 28;
#else
constexpr gradus::index_t rows = 30;
#endif

auto f(const gradus::tensor<float, gradus::shape<30, 12>>& x,
       const gradus::tensor<std::int32_t, gradus::shape<rows, 2>>& places) {
  return gradus::dispatch_rows(x, places);
}
