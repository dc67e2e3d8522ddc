// expect: einsum<text>\(a, b\): the result has a letter that no operand has
// expect(g++): letter_is_in_an_operand<'z'>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<3, 3>>& a) {
#ifdef GRADUS_FAIL
  return gradus::einsum<"ij->iz">(a);
#else
  return gradus::einsum<"ij->ji">(a);
#endif
}
