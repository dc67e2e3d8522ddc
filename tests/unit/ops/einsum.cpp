#include <doctest/doctest.h>

#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::index_t extent_of(char c) { return c == 'b' ? 2 : static_cast<gr::index_t>(c - 'g') + 1; }  // i: 3, j: 4
template <char... C>
auto shape_of_letters(gr::detail::letters<C...>) -> gr::shape<extent_of(C)...>;
template <gr::detail::fixed_string Text, gr::index_t I>
using shape_in = decltype(shape_of_letters(gr::detail::letters_of<Text, I>()));

// The element of a term for the values of the letters.
std::size_t element_of(const std::string& term, const std::map<char, std::size_t>& at) {
  std::size_t i = 0;
  for (const char c : term) i = i * extent_of(c) + at.at(c);
  return i;
}
// Adds the product for every value of every letter.
values plain_einsum(const std::string& text, const std::vector<values>& operands) {
  std::vector<std::string> terms{""};
  for (const char c : text) {
    if (c == ',' || c == '>') terms.emplace_back();
    else if (c != '-') terms.back() += c;
  }
  std::map<char, std::size_t> at;
  std::size_t all = 1, results = 1;
  for (const auto& term : terms)
    for (const char c : term)
      if (at.emplace(c, 0).second) all *= extent_of(c);
  for (const char c : terms.back()) results *= extent_of(c);
  values y(results);
  for (std::size_t n = 0; n < all; ++n) {
    std::size_t rest = n;
    for (auto& [letter, value] : at) {
      value = rest % extent_of(letter);
      rest /= extent_of(letter);
    }
    double product = 1;
    for (std::size_t k = 0; k < operands.size(); ++k) product *= operands[k][element_of(terms[k], at)];
    y[element_of(terms.back(), at)] += product;
  }
  return y;
}

template <gr::detail::fixed_string Text>
void check() {
  CAPTURE(std::string(Text.text));
  workplace at;
  const auto a = normal<double, shape_in<Text, 0>>(at.ctx);
  const auto compare = [](const auto& y, const std::vector<values>& operands) {
    static_assert(std::is_same_v<gr::shape_of<decltype(y)>, shape_in<Text, 2>>);
    CHECK(worst_error(numbers(y), plain_einsum(Text.text, operands)) < 1e-12);
  };
  if constexpr (gr::detail::terms_of(Text).operands == 2) {
    const auto b = normal<double, shape_in<Text, 1>>(at.ctx);
    compare(gr::einsum<Text>(a, b), {numbers(a), numbers(b)});
  } else {
    compare(gr::einsum<Text>(a), {numbers(a)});
  }
}

}  // namespace

TEST_CASE("einsum agrees with a loop over all axes: products, sums, permutations and outer products") {
  check<"ij,jk->ik">();
  check<"ji,kj->ki">();      // the operands exchanged
  check<"bij,bjk->bik">();   // a batch
  check<"ibj,kjb->bki">();   // a batch within
  check<"bij,jk->bik">();    // one right matrix
  check<"ij,bjk->bik">();    // one left matrix
  check<"bijk,jkl->bil">();  // two axes summed
  check<"ijk,kjl->li">();
  check<"ij,j->i">();
  check<"j,jk->k">();
  check<"ijk,jl->il">();  // k is summed before
  check<"i,i->">();
  check<"bi,bi->b">();
  check<"ij,ji->">();
  check<"i,j->ji">();
  check<"ij,i->ij">();
  check<"bi,k->kib">();
  check<"ij->ji">();
  check<"ijk->j">();
  check<"ij->">();
  check<"ij->ij">();
}

TEST_CASE("einsum takes a matrix as it is, and allocates its result alone") {
  workplace at;
  const auto a = normal<float, gr::shape<2, 3, 4>>(at.ctx);
  const auto b = normal<float, gr::shape<2, 5, 4>>(at.ctx);
  const auto before = at.stats.all().live;
  const auto most = at.stats.all().peak;
  const auto y = gr::einsum<"bij,bkj->bik">(a, b);
  CHECK(at.stats.all().live - before == y.bytes);
  CHECK(at.stats.all().peak <= std::max(most, before + y.bytes));
  CHECK(same_bits(y, gr::matmul<gr::transpose{.b = true}>(a, b)));
}

TEST_CASE("einsum of parameters computes in their policy's type") {
  workplace at;
  gr::param<gr::on<gr::cpu, gr::bf16_mixed>, 4, 5> w;
  w.set(normal<float, gr::shape<4, 5>>(at.ctx));
  const auto x = normal<float, gr::shape<3, 4>>(at.ctx);
  const auto y = gr::einsum<"ij,jk->ik">(x, w);
  CHECK(same_bits(y, gr::matmul(x, w)));
  CHECK(same_bits(gr::einsum<"jk->jk">(w), w.value()));
  const auto of_f16 = gr::einsum<"ij,jk->ik">(gr::cast<gr::f16>(x), gr::cast<gr::f16>(w.value()));
  static_assert(std::is_same_v<decltype(of_f16), const gr::tensor<gr::f16, gr::shape<3, 5>>>);
}
