// expect: einsum<text>\(a, b\): a letter comes twice in one term; diagonals are not supported
// expect: letters_are_different<(gradus::detail::)?letters<'i', 'i'> ?>
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<3, 3>>& a) {
#ifdef GRADUS_FAIL
  return gradus::einsum<"ii->i">(a);
#else
  return gradus::einsum<"ij->i">(a);
#endif
}
