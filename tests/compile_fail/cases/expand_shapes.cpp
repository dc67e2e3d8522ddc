// expect: expand<extents\.\.\.>\(x\): the shape of x must broadcast to the new one: each extent of x is 1 or the same
// expect: shape_broadcasts_to<(gradus::)?shape<2(UL)?, 3(UL)?>, (gradus::)?shape<4(UL)?, 3(UL)?> ?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 2;
#else
constexpr gradus::index_t rows = 1;
#endif

auto f(const gradus::tensor<float, gradus::shape<rows, 3>>& x) { return gradus::expand<4, 3>(x); }
