// Bounded extents: every operation gives the bits of the static program with the same extents, in forward and backward.

#include "../../support/bounded.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gr::shape, gr::upto;

namespace {

constexpr auto check_family = [](const char* name, const auto& f) {
  CAPTURE(std::string(name));
  const unsigned seed = gradus_test::fresh_seed();
  const auto same = [&]<class Bounded, class Static>(const gr::bounded_extents<Bounded>& extents, Static) {
    CHECK(gradus_test::bits_of<gradus_test::workplace, Bounded>(f, seed, extents) ==
          gradus_test::bits_of<gradus_test::workplace, Static>(f, seed, {}));
  };
  same(gr::extents_of<shape<5, upto<7>, 8>>(4), shape<5, 4, 8>{});
  same(gr::extents_of<shape<upto<5>, upto<7>, 8>>(1, 4), shape<1, 4, 8>{});
};

}  // namespace

TEST_CASE("bounded shapes have the bits of static ones: operations on any axes") {
  gradus_test::families_of_any_axes(check_family);
}

TEST_CASE("bounded shapes have the bits of static ones: order, indices, attention") {
  check_family("cumsum", [](auto&, auto& x, auto& y) { return gr::cumsum<0>(x) * gr::cumsum<1>(y); });
  check_family("prod", [](auto&, auto& x, auto& y) { return gr::prod<1, 2>(x, gr::keep_axes) * gr::prod<0>(y); });
  check_family("logsumexp of two axes", [](auto&, auto& x, auto& y) { return gr::logsumexp<0, 2>(x * y); });
  check_family("tests", [](auto&, auto& x, auto& y) { return gr::where(x < y, x, y * 2.0f); });
  check_family("pad, roll, stack", [](auto&, auto& x, auto& y) {
    return gr::stack<1>(gr::pad<1, 1, 2>(gr::roll<0>(x, 1)), gr::pad<1, 2, 1>(gr::roll<1>(y, -1)));
  });
  check_family("slices at run time",
               [](auto&, auto& x, auto& y) { return gr::sum(gr::slice<1, 2>(x, 1)) * gr::slice<1, upto<3>>(y, 1, 2); });
  check_family("sort, topk", [](auto&, auto& x, auto& y) { return gr::sort(x) * gr::topk<1>(y).first; });
  check_family("gather, index_select", [](auto& ctx, auto& x, auto& y) {
    const auto at = gr::argsort(y.value());
    const auto rows = gr::from_values<int, shape<3>>(ctx, {0, 0, 0});
    return gr::gather<2>(x, at) * gr::sum<1>(gr::index_select<1>(y, rows), gr::keep_axes);
  });
  check_family("index_add, expand_as, interpolate", [](auto& ctx, auto& x, auto& y) {
    const auto rows = gr::from_values<int, shape<2>>(ctx, {1, 0});
    const auto column = gr::sum<0, 1>(y);
    const auto images = gr::stack<1>(x, y);
    return gr::index_add<2>(x, rows, gr::slice<2, 3, 2>(y)) * gr::expand_as(column, x) *
           gr::sum(gr::interpolate<3, 5, gr::interpolation::bilinear>(gr::permute<0, 2, 1, 3>(images)));
  });
  check_family("scatter_add, triangles",
               [](auto&, auto& x, auto& y) { return gr::scatter_add<2>(x, gr::argsort(x.value()), y) * gr::tril(y); });
  check_family("einsum", [](auto& ctx, auto& x, auto& y) {
    return gr::einsum<"btc,cd->btd">(x, gradus_test::constant<shape<8, 6>>(ctx, 1)) * gr::mean<-1>(y, gr::keep_axes);
  });
  check_family("losses", [](auto&, auto& x, auto& y) {
    const auto targets = gr::argmin<-1>(y.value());
    return gr::mse_loss(x, y) + gr::nll_loss(gr::log_softmax(x), targets) +
           gr::cross_entropy(y, targets, {.smoothing = 0.1}) + gr::bce_with_logits(x, gr::sigmoid(y));
  });
  check_family("attention", [](auto&, auto& x, auto& y) {
    return gr::attention<4>(x, y, y) + gr::attention<2>(x, y, x, {.causal = true, .dropout = 0.2, .window = 2});
  });
  check_family("causal_attention", [](auto&, auto& x, auto& y) {
    return gr::causal_attention<2>(gr::concat<2>(x, y, x)) * gr::rope<2>(y);
  });
}

TEST_CASE("bounded shapes have the bits of static ones: rows, products, losses") {
  gradus_test::families_of_rows(check_family);
}

TEST_CASE("bounded shapes have the bits of static ones: casts, slices, checkpoints") {
  gradus_test::families_of_other_kernels(check_family);
}
