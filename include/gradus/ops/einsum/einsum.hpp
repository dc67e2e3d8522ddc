#pragma once
// einsum<"bij,bjk->bik">(a, b): sums of products over named axes, as sums, permutations and one product.

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/fixed_string.hpp"
#include "../elementwise/arithmetic.hpp"
#include "../matmul/matmul.hpp"
#include "../permute/permute.hpp"
#include "../reduce/reduce.hpp"
#include "../reshape/reshape.hpp"

namespace gradus {

namespace detail {

// The letters of an operand's axes, or of the result's.
template <char... C>
struct letters {
  static constexpr index_t count = sizeof...(C);
  static constexpr std::array<char, count> all{C...};
  static constexpr bool has([[maybe_unused]] char c) { return ((C == c) || ...); }
  // The axis that the letter names.
  static constexpr index_t axis(char c) {
    index_t i = 0;
    while (i < count && all[i] != c) ++i;
    return i;
  }
  static constexpr bool different() {
    for (index_t i = 0; i != count; ++i)
      if (axis(all[i]) != i) return false;
    return true;
  }
};
template <char... A, char... B>
constexpr letters<A..., B...> operator+(letters<A...>, letters<B...>) {
  return {};
}
template <class A, bool InA, class B, bool InB, char... C>
GRADUS_OF_BUILD constexpr auto choose(letters<C...>) {
  return (letters<>{} + ... + std::conditional_t < A::has(C) == InA && B::has(C) == InB, letters<C>, letters < >> {});
}
// The letters of L that A has, or has not, and B has, or has not.
template <class L, class A, bool InA, class B, bool InB>
using chosen = decltype(choose<A, InA, B, InB>(L{}));
template <class... Ls>
using joined = decltype((letters<>{} + ... + Ls{}));

// The text of an einsum: its terms, and where they are.
struct einsum_term {
  index_t first = 0, count = 0;
};
struct einsum_terms {
  einsum_term operand[2], result;
  index_t operands = 0;
  bool valid = false;
};
constexpr einsum_terms terms_of(std::string_view text) {
  einsum_terms found;
  const index_t arrow = text.find("->");
  if (arrow == std::string_view::npos) return found;
  for (index_t at = 0; at <= arrow; ++found.operands) {
    index_t end = at;
    while (end < arrow && text[end] != ',') ++end;
    if (found.operands < 2) found.operand[found.operands] = {at, end - at};
    at = end + 1;
  }
  found.result = {arrow + 2, text.size() - arrow - 2};
  found.valid = true;
  for (index_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && i != arrow && i != arrow + 1 && !(c == ',' && i < arrow)) found.valid = false;
  }
  return found;
}
template <fixed_string Text, index_t First, std::size_t... Is>
GRADUS_OF_BUILD constexpr auto letters_from(std::index_sequence<Is...>) {
  return letters<Text.text[First + Is]...>{};
}
// The letters of operand At, or of the result for At = 2.
template <fixed_string Text, index_t At>
GRADUS_OF_BUILD constexpr auto letters_of() {
  constexpr einsum_terms terms = terms_of(Text);
  constexpr einsum_term term = At < 2 ? terms.operand[At % 2] : terms.result;
  return letters_from<Text, term.first>(std::make_index_sequence<term.count>{});
}

// The first letter whose extents differ in the operands; equal extents if there is none.
struct letter_extents {
  char letter = ' ';
  index_t a = 1, b = 1;
};
template <class A, class B, class SA, class SB>
constexpr letter_extents different_extents() {
  for (const char c : A::all)
    if (B::has(c) && SA::in_type[A::axis(c)] != SB::in_type[B::axis(c)])
      return {c, SA::in_type[A::axis(c)], SB::in_type[B::axis(c)]};
  return {};
}
// The first letter of the result that no operand has; ' ' if there is none.
template <class Out, class... Ls>
constexpr char unknown_letter() {
  for (const char c : Out::all)
    if (!(Ls::has(c) || ...)) return c;
  return ' ';
}

// Named in messages.
template <fixed_string Text>
inline constexpr bool text_is_terms_and_result = terms_of(Text).valid;
template <index_t Terms, index_t Operands>
inline constexpr bool terms_equal_operands = Terms == Operands;
template <index_t Letters, index_t Rank>
inline constexpr bool letters_equal_rank = Letters == Rank;
template <class Letters>
inline constexpr bool letters_are_different = Letters::different();
template <char Letter>
inline constexpr bool letter_is_in_an_operand = Letter == ' ';
template <char Letter, index_t ExtentInA, index_t ExtentInB>
inline constexpr bool extents_of_letter_are_equal = ExtentInA == ExtentInB;

// A value between two steps: a handle, or a reference to a parameter or state, which is not copied.
template <class X>
using between_steps =
    std::conditional_t<is_model_tensor<std::remove_cvref_t<X>>, const std::remove_cvref_t<X>&, std::remove_cvref_t<X>>;

// x with the axes L, permuted to the order of `to`.
template <class L, char... C, class X>
GRADUS_OF_BUILD constexpr decltype(auto) arranged(letters<C...> to, X&& x) {
  if constexpr (std::is_same_v<L, decltype(to)>) return between_steps<X>(std::forward<X>(x));
  else return permute<L::axis(C)...>(std::forward<X>(x));
}
template <class L, char... C, class X>
GRADUS_OF_BUILD constexpr decltype(auto) without(letters<C...>, X&& x) {
  if constexpr (sizeof...(C) == 0) return between_steps<X>(std::forward<X>(x));
  else return sum<static_cast<std::ptrdiff_t>(L::axis(C))...>(std::forward<X>(x));
}
template <class Extents, class X>
GRADUS_OF_BUILD constexpr decltype(auto) with_extents(const Extents& extents, X&& x) {
  using S = type_of_extents<Extents>;
  if constexpr (std::is_same_v<S, shape_of<X>>) return between_steps<X>(std::forward<X>(x));
  else return apply(op::reshape<S>{extents}, std::forward<X>(x));
}

// The extents of letters: in A's operand, or else in B's.
template <class A, class SA, class B, class SB>
struct lettered_extents {
  [[no_unique_address]] extents_of<SA> a;
  [[no_unique_address]] extents_of<SB> b;

  static constexpr index_t in_type(char c) {
    if (A::has(c)) return SA::in_type[A::axis(c)];
    return SB::in_type[B::axis(c)];
  }
  constexpr index_t of(char c) const {
    if (A::has(c)) return a.extents[A::axis(c)];
    return b.extents[B::axis(c)];
  }
  constexpr void check() const {
    for (const char c : A::all)
      if (B::has(c)) check_extents_meet("einsum", A::axis(c), a.extents[A::axis(c)], b.extents[B::axis(c)]);
  }
  // The product of the letters' extents in the type, a bound if one of them is.
  template <char... C>
  static constexpr index_t product(letters<C...>) {
    return (bound_of(in_type(C)) * ... * 1) + ((is_bounded(in_type(C)) || ...) ? bounded_mark : 0);
  }
  // Shapes of the letters' extents: as they are; with 1 for the letters that L lacks; followed by two products.
  template <char... C>
  constexpr auto shaped(letters<C...>) const {
    return extents_from<shape<in_type(C)...>>([&] { return std::array<index_t, sizeof...(C)>{of(C)...}; });
  }
  template <class L, char... C>
  constexpr auto widened(letters<C...>) const {
    return extents_from<shape<(L::has(C) ? in_type(C) : 1)...>>(
        [&] { return std::array<index_t, sizeof...(C)>{(L::has(C) ? of(C) : 1)...}; });
  }
  template <char... M, char... N, char... C>
  constexpr auto matrices(letters<C...>, letters<M...> m, letters<N...> n) const {
    return extents_from<shape<in_type(C)..., product(m), product(n)>>([&] {
      return std::array<index_t, sizeof...(C) + 2>{of(C)..., (of(M) * ... * 1), (of(N) * ... * 1)};
    });
  }
};

template <class L, class Out, class X>
GRADUS_OF_BUILD constexpr auto einsum_one(X&& x) {
  using kept = chosen<L, L, true, Out, true>;
  if constexpr (std::is_same_v<L, Out>) return apply(op::reshape<shape_of<X>>{}, std::forward<X>(x));
  else return arranged<kept>(Out{}, without<L>(chosen<L, L, true, Out, false>{}, std::forward<X>(x)));
}

// The product of a and b with axes A and B. Every axis of a or b also occurs in the other operand or in the result.
template <class A, class B, class Out, class X, class Y>
GRADUS_OF_BUILD constexpr auto einsum_product(X&& a, Y&& b) {
  using batch = chosen<Out, A, true, B, true>;
  using of_a = chosen<Out, A, true, B, false>;
  using of_b = chosen<Out, A, false, B, true>;
  using summed = chosen<A, B, true, Out, false>;
  using product = joined<batch, of_a, of_b>;
  const lettered_extents<A, shape_of<X>, B, shape_of<Y>> extents{plain(a).extents(), plain(b).extents()};
  extents.check();
  constexpr bool swapped = std::is_same_v<Out, joined<batch, of_b, of_a>> && !std::is_same_v<Out, product>;
  if constexpr (summed::count == 0 || (of_a::count == 0 && of_b::count == 0)) {
    // No product of matrices: element by element, in the order of the result.
    using all = joined<Out, summed>;
    const auto widened_a = extents.template widened<A>(all{});
    const auto widened_b = extents.template widened<B>(all{});
    return without<all>(
        summed{}, multiply(with_extents(widened_a, arranged<A>(chosen<all, A, true, A, true>{}, std::forward<X>(a))),
                           with_extents(widened_b, arranged<B>(chosen<all, B, true, B, true>{}, std::forward<Y>(b)))));
  } else if constexpr (of_b::count == 0 || (of_a::count != 0 && swapped)) {
    return einsum_product<B, A, Out>(std::forward<Y>(b), std::forward<X>(a));  // the result needs no permutation
  } else {
    // An operand that is a transposed matrix already is not copied.
    constexpr bool ta = std::is_same_v<A, joined<batch, summed, of_a>> && of_a::count != 0;
    constexpr bool tb = std::is_same_v<B, joined<batch, of_b, summed>>;
    using order_a = std::conditional_t<ta, A, joined<batch, of_a, summed>>;
    using order_b = std::conditional_t<tb, B, joined<batch, summed, of_b>>;
    const auto matrix_a =
        extents.matrices(batch{}, std::conditional_t<ta, summed, of_a>{}, std::conditional_t<ta, of_a, summed>{});
    const auto matrix_b =
        extents.matrices(batch{}, std::conditional_t<tb, of_b, summed>{}, std::conditional_t<tb, summed, of_b>{});
    const auto result = extents.shaped(product{});
    auto c = matmul<transpose{.a = ta, .b = tb}>(with_extents(matrix_a, arranged<A>(order_a{}, std::forward<X>(a))),
                                                 with_extents(matrix_b, arranged<B>(order_b{}, std::forward<Y>(b))));
    return arranged<product>(Out{}, with_extents(result, std::move(c)));
  }
}

// Sums over the axes that only one operand has, then multiplies.
template <class A, class B, class Out, class X, class Y>
GRADUS_OF_BUILD constexpr auto einsum_two(X&& a, Y&& b) {
  using alone_in_a = chosen<A, B, false, Out, false>;
  using alone_in_b = chosen<B, A, false, Out, false>;
  return einsum_product<chosen<A, A, true, alone_in_a, false>, chosen<B, B, true, alone_in_b, false>, Out>(
      without<A>(alone_in_a{}, std::forward<X>(a)), without<B>(alone_in_b{}, std::forward<Y>(b)));
}

template <fixed_string Text, std::size_t... Is, class... Xs>
GRADUS_OF_BUILD constexpr auto einsum_checked(std::index_sequence<Is...>, Xs&&... xs) {
  using out = decltype(letters_of<Text, 2>());
  GRADUS_REQUIRE("einsum<text>(a, b): each operand needs one letter for each axis",
                 (letters_equal_rank<decltype(letters_of<Text, Is>())::count, shape_of<Xs>::rank> && ...))
  GRADUS_REQUIRE("einsum<text>(a, b): a letter comes twice in one term; diagonals are not supported",
                 (letters_are_different<decltype(letters_of<Text, Is>())> && ... && letters_are_different<out>))
  GRADUS_REQUIRE("einsum<text>(a, b): the result has a letter that no operand has",
                 letter_is_in_an_operand<unknown_letter<out, decltype(letters_of<Text, Is>())...>()>)
  if constexpr (sizeof...(Xs) == 1) return einsum_one<decltype(letters_of<Text, 0>()), out>(std::forward<Xs>(xs)...);
  else {
    using A = decltype(letters_of<Text, 0>());
    using B = decltype(letters_of<Text, 1>());
    constexpr letter_extents wrong = different_extents<A, B, shape_of<Xs>...>();
    GRADUS_REQUIRE("einsum<text>(a, b): the axes of one letter must have equal extents",
                   extents_of_letter_are_equal<wrong.letter, wrong.a, wrong.b>)
    return einsum_two<A, B, out>(std::forward<Xs>(xs)...);
  }
}

}  // namespace detail

/// Sums of products over named axes: `einsum<"bij,bjk->bik">(a, b)`. A letter names an axis of one extent; axes whose
/// letters the result, after ->, does not have are summed. Of one operand it is sums and a permutation: "ij->j". Of two
/// it is one matmul if they share an axis that is summed and either has others, else an elementwise product; the
/// element type is what these functions return. No diagonals ("ii->i").
template <detail::fixed_string Text, operand... Xs>
  requires(sizeof...(Xs) == 1 || sizeof...(Xs) == 2)
GRADUS_OF_BUILD constexpr auto einsum(Xs&&... xs) {
  constexpr detail::einsum_terms terms = detail::terms_of(Text);
  GRADUS_REQUIRE("einsum<text>(a, b): the text is like ij,jk->ik: a letter for each axis, and -> before the result's",
                 detail::text_is_terms_and_result<Text>)
  GRADUS_REQUIRE("einsum<text>(a, b): the text must have one term for each operand",
                 detail::terms_equal_operands<terms.operands, sizeof...(Xs)>)
  return detail::einsum_checked<Text>(std::index_sequence_for<Xs...>{}, std::forward<Xs>(xs)...);
}

}  // namespace gradus
