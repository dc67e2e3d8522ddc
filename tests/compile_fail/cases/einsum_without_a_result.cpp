// expect: einsum<text>\(a, b\): the text is like ij,jk->ik: a letter for each axis, and -> before the result's
#include <gradus/gradus.hpp>

auto f(const gradus::tensor<float, gradus::shape<2, 3>>& a, const gradus::tensor<float, gradus::shape<3, 5>>& b) {
#ifdef GRADUS_FAIL
  return gradus::einsum<"ij,jk">(a, b);
#else
  return gradus::einsum<"ij,jk->ik">(a, b);
#endif
}
