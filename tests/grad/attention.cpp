#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::index_t B, gr::index_t T, gr::index_t Heads, gr::index_t Depth>
void check() {
  CAPTURE(T);
  CAPTURE(Depth);
  workplace at;
  const auto x = normal<double, gr::shape<B, T, 3 * Heads * Depth>>(at.ctx);
  const auto flash = gr::gradcheck([](auto v) { return gr::causal_attention<Heads>(v); }, x);
  CHECK_MESSAGE(flash.ok, flash.message);
}
}  // namespace

TEST_CASE("the gradient of causal attention is right at one time, odd sizes, and beyond a pack and a block") {
  check<1, 1, 1, 1>();
  check<2, 5, 3, 3>();
  check<1, 13, 1, 9>();
  check<1, 70, 1, 2>();
}

TEST_CASE("the gradient of attention is right, and of plain attention, and with fewer keys than queries") {
  workplace at;
  const auto q = normal<double, gr::shape<1, 2, 11, 3>>(at.ctx);
  const auto k = normal<double, gr::shape<1, 2, 5, 3>>(at.ctx);
  const auto v = normal<double, gr::shape<1, 2, 5, 3>>(at.ctx);
  const auto full = gr::gradcheck([](auto a, auto b, auto c) { return gr::attention(a, b, c); }, q, k, v);
  CHECK_MESSAGE(full.ok, full.message);
  const auto same = gr::gradcheck([](auto a) { return gr::attention<true>(a, a, a); }, q);
  CHECK_MESSAGE(same.ok, same.message);
  const auto plain = gr::gradcheck([](auto x) { return gr::causal_attention<2, gr::attention_kernel::plain>(x); },
                                   normal<double, gr::shape<1, 5, 12>>(at.ctx));
  CHECK_MESSAGE(plain.ok, plain.message);
}
