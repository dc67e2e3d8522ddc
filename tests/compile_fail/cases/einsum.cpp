#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: einsum_diagonal
// expect: einsum<text>\(a, b\): a letter comes twice in one term; diagonals are not supported
// expect: letters_are_different<(gradus::detail::)?letters<'i', 'i'> ?>
auto f(const tensor<3, 3>& a) { return gr::einsum<"ii->i">(a); }
// twin
auto f(const tensor<3, 3>& a) { return gr::einsum<"ij->i">(a); }

// case: einsum_extents
// expect: einsum<text>\(a, b\): the axes of one letter must have equal extents
// expect(g++): extents_of_letter_are_equal<'j', 3(UL)?, 4(UL)?>
auto f(const tensor<2, 3>& a, const tensor<4, 5>& b) { return gr::einsum<"ij,jk->ik">(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 5>& b) { return gr::einsum<"ij,jk->ik">(a, b); }

// case: einsum_result
// expect: einsum<text>\(a, b\): the result has a letter that no operand has
// expect(g++): letter_is_in_an_operand<'z'>
auto f(const tensor<3, 3>& a) { return gr::einsum<"ij->iz">(a); }
// twin
auto f(const tensor<3, 3>& a) { return gr::einsum<"ij->ji">(a); }

// case: einsum_without_a_result
// expect: einsum<text>\(a, b\): the text is like ij,jk->ik: a letter for each axis, and -> before the result's
auto f(const tensor<2, 3>& a, const tensor<3, 5>& b) { return gr::einsum<"ij,jk">(a, b); }
// twin
auto f(const tensor<2, 3>& a, const tensor<3, 5>& b) { return gr::einsum<"ij,jk->ik">(a, b); }
