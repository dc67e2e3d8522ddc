// expect: einsum<text>\(a, b\): the axes of one letter must have equal extents
// expect(g++): extents_of_letter_are_equal<'j', 3(UL)?, 4(UL)?>
#include <gradus/gradus.hpp>

#ifdef GRADUS_FAIL
constexpr gradus::index_t rows = 4;
#else
constexpr gradus::index_t rows = 3;
#endif

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const gradus::tensor<float, gradus::shape<rows, 5>>& b) {
  return gradus::einsum<"ij,jk->ik">(a, b);
}
